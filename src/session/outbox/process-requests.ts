import { recordOf, textOf } from "../../protocol/json-value.ts";
import type { Limits } from "../../protocol/limits.ts";
import type { ProcessPlacement } from "../../protocol/rpc.ts";
import { unavailable } from "../core/decide/agent-process.ts";
import { setPolicy } from "../core/decide/policy.ts";
import type { SessionState } from "../core/state/state.ts";
import type { Recorder } from "../log/journal.ts";
import { callWorkspace, type SessionContext, type SessionParts } from "../session-parts.ts";

type Parts = Pick<SessionParts, "deadlines" | "enrolment" | "journal" | "link" | "webhooks">;

/** The session's requests to its workspace for an agent process. */
export class ProcessRequests {
  readonly #context: SessionContext;
  readonly #limits: Limits;
  readonly #parts: Parts;
  readonly #record: Recorder;
  /** The agent's modes as the workspace knows them; undefined after an eviction. */
  #knownModes: readonly string[] | undefined;

  constructor(context: SessionContext, parts: Parts, record: Recorder) {
    this.#context = context;
    this.#limits = context.limits;
    this.#parts = parts;
    this.#record = record;
  }

  /**
   * The event `seq` asks for an agent that opens the session: now, or after a delay. A request that does not reach the
   * workspace is made again, until the deadline for the start.
   */
  request(state: SessionState, seq: number, delayMs = 0): void {
    const { deadlines } = this.#parts;
    const now = Date.now();
    // A process exists or is on its way; it is only asked to open the session.
    const needsProcess = seq === state.processRequest;
    // Set before the call: an object that is evicted during the call makes it again.
    if (needsProcess) deadlines.set("place", now + (delayMs > 0 ? delayMs : this.#limits.callMs));
    deadlines.set("agent-start", now + delayMs + this.#limits.agentStartMs);
    if (needsProcess && delayMs === 0) this.#context.ctx.waitUntil(this.#placeNow(state));
  }

  async #placeNow(state: SessionState): Promise<void> {
    const { deadlines, journal } = this.#parts;
    const { sessionId, processRequest } = state;
    try {
      await this.place(state);
    } catch (error) {
      console.error("place failed", { sessionId, error: String(error) });
      if (journal.state && state.processRequest === processRequest)
        deadlines.set("place", Date.now() + PLACE_RETRY_MS * (0.5 + Math.random()));
    }
  }

  /**
   * Asks the workspace for the process, unless the session has one by now or wants none. The request is numbered, so the
   * workspace may get it twice.
   */
  async place(state: SessionState): Promise<void> {
    const { sessionId, identity, processRequest, home } = state;
    if (!identity || state.agent !== "starting") return;
    const { tenant, workspace: name, agent } = identity;
    const order = { tenant, workspace: name, sessionId, agent, processRequest, home };
    const answer = await callWorkspace(this.#context, state, (workspace) => workspace.place(order));
    const { journal, deadlines, enrolment, webhooks } = this.#parts;
    if (!journal.state || !answer) return;
    const { unavailable: reason, policy, webhookTypes, enrolled } = answer;
    this.#knownModes = answer.modes ?? [];
    const isLatest = journal.state.processRequest === processRequest;
    if (isLatest) deadlines.clear("place");
    if (enrolled) enrolment.markDone(state);
    webhooks.want(webhookTypes);
    this.#record((batch) => {
      setPolicy(batch, policy);
      // The answer says nothing about a later request, nor about a process that has come meanwhile.
      if (reason !== null && isLatest && batch.state.agent === "starting") unavailable(batch, reason);
    });
  }

  /** Tells the workspace the agent's modes, unless it knows them. A report that is lost is made by the next session. */
  async reportModes(state: SessionState): Promise<void> {
    const { identity, sessionId } = state;
    const { modes } = state.report;
    const known = this.#knownModes;
    const ids = modes?.available.items.flatMap((mode) => textOf(recordOf(mode).id) ?? []) ?? [];
    if (!identity || !known || ids.length === 0 || ids.join("\n") === known.join("\n")) return;
    this.#knownModes = ids;
    const { agent } = identity;
    try {
      await callWorkspace(this.#context, state, (workspace) => workspace.reportModes(agent, ids));
    } catch (error) {
      console.warn("modes not reported", { sessionId, error: String(error) });
    }
  }

  /** Where the workspace has placed the requested process; null if on no host. */
  async placementOf(state: SessionState): Promise<ProcessPlacement | "unknown" | null> {
    const { sessionId, processRequest } = state;
    try {
      const placement = await callWorkspace(this.#context, state, (workspace) =>
        workspace.placementOf(sessionId, processRequest),
      );
      return placement ?? null;
    } catch (error) {
      console.error("placement unknown", { sessionId, error: String(error) });
      return "unknown";
    }
  }

  /** No process has opened the session in time: the prompts that wait for one fail, with the reason. */
  async startTimedOut(state: SessionState): Promise<void> {
    const { agent, run, identity, processRequest } = state;
    // A client that has only logged in may take its time.
    if (agent !== "starting" || (run?.initialized && identity?.request === null)) return;
    const { link, journal, deadlines } = this.#parts;
    const reason = link.socket()
      ? "The agent did not open the session in time"
      : await this.#missingHost(state);
    if (journal.state?.agent !== "starting" || state.processRequest !== processRequest) return;
    link.stop(reason);
    deadlines.clear("place");
    this.#record((batch) => unavailable(batch, reason));
  }

  async #missingHost(state: SessionState): Promise<string> {
    const reason = "No host has started an agent in time";
    try {
      const waitsFor = await callWorkspace(this.#context, state, (workspace) =>
        workspace.explain(state.sessionId),
      );
      return waitsFor ? `${reason}: waited for ${waitsFor}` : reason;
    } catch (error) {
      console.error("explain failed", { sessionId: state.sessionId, error: String(error) });
      return `${reason}: the workspace does not respond`;
    }
  }

  /** Gives the placement back when the session has no process and wants none. Serves a deadline: failures are repeated. */
  async release(state: SessionState): Promise<void> {
    const { run, agent, sessionId, processRequest } = state;
    if (run || agent === "starting") return;
    await callWorkspace(this.#context, state, (workspace) => workspace.release(sessionId, processRequest));
  }

  /** The state of the workspace's files, asked for each time: files change without the session's knowledge. */
  async workspaceState(
    state: SessionState,
  ): Promise<{ currentBranch?: string; modifiedFiles?: string[] } | null> {
    if (!state.home) return null;
    try {
      const { home } = state;
      const git = await callWorkspace(this.#context, state, (workspace) => workspace.gitFor(home));
      if (!git) return null;
      const { branch, modifiedFiles } = git;
      return branch === null ? { modifiedFiles } : { currentBranch: branch, modifiedFiles };
    } catch (error) {
      console.error("workspace state unknown", { sessionId: state.sessionId, error: String(error) });
      return null;
    }
  }
}

/** Mean pause before a request that did not reach the workspace is made again; the deadline's own pauses follow. */
const PLACE_RETRY_MS = 1000;
