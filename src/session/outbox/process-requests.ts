import type { Limits } from "../../protocol/limits.ts";
import { unavailable } from "../core/decide/agent-process.ts";
import { setPolicy } from "../core/decide/policy.ts";
import type { SessionState } from "../core/state/state.ts";
import type { Recorder } from "../log/journal.ts";
import { type SessionContext, type SessionParts, workspaceObjectOf } from "../session-parts.ts";

type Parts = Pick<SessionParts, "deadlines" | "journal" | "link" | "webhooks">;

/** The session's requests to its workspace for an agent process. */
export class ProcessRequests {
  readonly #ctx: DurableObjectState;
  readonly #env: Env;
  readonly #limits: Limits;
  readonly #parts: Parts;
  readonly #record: Recorder;

  constructor({ ctx, env, limits }: SessionContext, parts: Parts, record: Recorder) {
    this.#ctx = ctx;
    this.#env = env;
    this.#limits = limits;
    this.#parts = parts;
    this.#record = record;
  }

  /** The event `seq` asks for an agent that opens the session: now, or after a delay. */
  request(state: SessionState, seq: number, delayMs = 0): void {
    const { deadlines } = this.#parts;
    deadlines.set("agent-start", Date.now() + delayMs + this.#limits.agentStartMs);
    // A process exists or is on its way; it is only asked to open the session.
    if (seq !== state.processRequest) return;
    if (delayMs > 0) deadlines.set("place", Date.now() + delayMs);
    else this.#ctx.waitUntil(this.place(state));
  }

  async place(state: SessionState): Promise<void> {
    const { sessionId, identity, processRequest, home } = state;
    const workspace = workspaceObjectOf(this.#env, state);
    if (!identity || !workspace) return;
    const { tenant, workspace: name, agent } = identity;
    try {
      const order = { tenant, workspace: name, sessionId, agent, processRequest, home };
      const { unavailable: reason, policy, webhookTypes } = await workspace.place(order);
      if (!this.#parts.journal.state) return;
      this.#parts.webhooks.want(webhookTypes);
      this.#record((batch) => {
        setPolicy(batch, policy);
        if (reason !== null) unavailable(batch, reason);
      });
    } catch (error) {
      // The deadline for the start is set: if the request does not reach the workspace, the client gets an error.
      console.error("place failed", { sessionId, error: String(error) });
    }
  }

  /** No process has opened the session in time: the prompts that wait for one fail, with the reason. */
  async startTimedOut(state: SessionState): Promise<void> {
    const { agent, run, identity, processRequest } = state;
    // A client that has only logged in may take its time.
    if (agent !== "starting" || (run?.initialized && identity?.request === null)) return;
    const { link, journal } = this.#parts;
    const reason = link.socket()
      ? "The agent did not open the session in time"
      : await this.#missingHost(state);
    if (journal.state?.agent !== "starting" || state.processRequest !== processRequest) return;
    link.stop(reason);
    this.#record((batch) => unavailable(batch, reason));
  }

  async #missingHost(state: SessionState): Promise<string> {
    const reason = "No host has started an agent in time";
    try {
      const waitsFor = await workspaceObjectOf(this.#env, state)?.explain(state.sessionId);
      return waitsFor ? `${reason}: waited for ${waitsFor}` : reason;
    } catch (error) {
      console.error("explain failed", { sessionId: state.sessionId, error: String(error) });
      return reason;
    }
  }

  /** Gives the placement back when the session has no process and wants none. */
  async release(state: SessionState): Promise<void> {
    if (state.run || state.agent === "starting") return;
    try {
      await workspaceObjectOf(this.#env, state)?.release(state.sessionId, state.processRequest);
    } catch (error) {
      console.error("release failed", { sessionId: state.sessionId, error: String(error) });
      this.#parts.deadlines.setUnlessSet("release", Date.now() + this.#limits.hostStatusRetryMs);
    }
  }

  /** The state of the workspace's files, asked for each time: files change without the session's knowledge. */
  async workspaceState(
    state: SessionState,
  ): Promise<{ currentBranch?: string; modifiedFiles?: string[] } | null> {
    if (!state.home) return null;
    try {
      const git = await workspaceObjectOf(this.#env, state)?.gitFor(state.home);
      if (!git) return null;
      const { branch, modifiedFiles } = git;
      return branch === null ? { modifiedFiles } : { currentBranch: branch, modifiedFiles };
    } catch (error) {
      console.error("workspace state unknown", { sessionId: state.sessionId, error: String(error) });
      return null;
    }
  }
}
