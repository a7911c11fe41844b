import type { DeadlineHandler } from "../durable/deadlines.ts";
import type { Limits } from "../protocol/limits.ts";
import { type Act, audit } from "../tenant/client/audit.ts";
import { checkIdle, unavailable } from "./core/decide/agent-process.ts";
import { expirePermissions, nextTimeout, setPolicy } from "./core/decide/policy.ts";
import { FACTS, type Facts } from "./core/events/catalogue.ts";
import { type FactEvent, isFact, type LogEvent } from "./core/events/event.ts";
import type { SessionState } from "./core/state/state.ts";
import type { Recorder } from "./log/journal.ts";
import {
  type SessionContext,
  type SessionDeadline,
  type SessionParts,
  workspaceOf,
} from "./session-parts.ts";

/**
 * What events ask of others once they are in the log: a place for the agent, a line in the index, a note in the
 * audit, a word to webhooks; and what is to be done when time has passed.
 */
export class FollowUp {
  readonly #ctx: DurableObjectState;
  readonly #env: Env;
  readonly #limits: Limits;
  readonly #parts: SessionParts;
  readonly #record: Recorder;

  constructor({ ctx, env, limits }: SessionContext, parts: SessionParts, record: Recorder) {
    this.#ctx = ctx;
    this.#env = env;
    this.#limits = limits;
    this.#parts = parts;
    this.#record = record;
  }

  after(state: SessionState, events: readonly LogEvent[]): void {
    const { deadlines, link, index, archive, webhooks } = this.#parts;
    webhooks.note(state, events);
    if (archive.isDue(state)) deadlines.setUnlessSet("archive", Date.now());
    const facts = events.filter(isFact);
    if (facts.length === 0) return;
    const traits = facts.map(({ kind }) => FACTS[kind]);
    for (const fact of facts) this.#afterFact(state, fact);
    if (state.agent === "ready" && traits.some((fact) => fact.opensAgentSession)) {
      deadlines.clear("agent-start");
      deadlines.setUnlessSet("idle", Date.now() + this.#limits.idleMs);
    }
    for (const { stopsProcess } of traits) if (stopsProcess !== undefined) link.stop(stopsProcess);
    if (!state.run && state.agent !== "starting" && traits.some((fact) => fact.freesPlacement))
      deadlines.set("release", Date.now());
    if (traits.some((fact) => fact.movesPermissionTimeout)) {
      const at = nextTimeout(state);
      if (at !== null) deadlines.set("permission", at);
    }
    const listed = traits.map((fact) => fact.listed);
    // The deadline is the outbox: it outlives a crash.
    if (index.isDue(listed)) deadlines.setUnlessSet("index", Date.now() + this.#limits.indexDelayMs);
    if (index.isUrgent(state, listed)) this.#ctx.waitUntil(index.write(state));
  }

  #afterFact(state: SessionState, event: FactEvent): void {
    const { deadlines } = this.#parts;
    switch (event.kind) {
      case "session.anticipated":
        this.#seekPlace(state, event.seq);
        return deadlines.setUnlessSet("idle", Date.now() + this.#limits.idleMs);
      case "session.requested":
        return this.#seekPlace(state, event.seq);
      case "runtime.reconnect_attempt":
        return this.#seekPlace(state, event.seq, event.payload.delayMs ?? 0);
      case "agent.login":
        return this.#ctx.waitUntil(this.#relay(state, event.payload));
      case "queue.owner.lease_renewed":
        return deadlines.set("idle", event.payload.until);
      case "permission.responded":
        return this.#noteAnswer(state, event.payload);
    }
  }

  // ---- others -----------------------------------------------------------------------------------------

  /** Asked when someone looks: files change without the session's doing. */
  async workspaceState(
    state: SessionState,
  ): Promise<{ currentBranch?: string; modifiedFiles?: string[] } | null> {
    if (!state.home) return null;
    try {
      const git = await workspaceOf(this.#env, state)?.gitFor(state.home);
      if (!git) return null;
      const { branch, modifiedFiles } = git;
      return branch === null ? { modifiedFiles } : { currentBranch: branch, modifiedFiles };
    } catch (error) {
      console.error("workspace state unknown", { sessionId: state.sessionId, error: String(error) });
      return null;
    }
  }

  note({ identity, sessionId }: SessionState, act: Act): void {
    if (!identity) return;
    const { tenant, workspace } = identity;
    this.#ctx.waitUntil(audit(this.#env, tenant, { ...act, workspace, session: sessionId }));
  }

  /** What a person has answered; the workspace's policy is no person. */
  #noteAnswer(state: SessionState, { request, outcome, subject }: Facts["permission.responded"]): void {
    if (subject === undefined) return;
    const detail = { request, outcome: JSON.stringify(outcome) };
    this.note(state, { kind: "permission.answered", subject, detail });
  }

  async #relay({ sessionId }: SessionState, { request, connection }: Facts["agent.login"]): Promise<void> {
    const raw = this.#parts.journal.frameAt(request)?.frame.raw;
    try {
      if (raw !== undefined) await this.#env.ACP_CONNECTION_DO.getByName(connection).relay(sessionId, raw);
    } catch (error) {
      // The other agents ask for a login themselves when they need one.
      console.warn("login not relayed", { sessionId, error: String(error) });
    }
  }

  #seekPlace(state: SessionState, seq: number, delayMs = 0): void {
    const { deadlines } = this.#parts;
    deadlines.set("agent-start", Date.now() + delayMs + this.#limits.agentStartMs);
    // The process is there or on its way, and only asked to open a session.
    if (seq !== state.processRequest) return;
    if (delayMs > 0) deadlines.set("place", Date.now() + delayMs);
    else this.#ctx.waitUntil(this.#place(state));
  }

  async #place(state: SessionState): Promise<void> {
    const { sessionId, identity, processRequest, home } = state;
    const workspace = workspaceOf(this.#env, state);
    if (!identity || !workspace) return;
    const { tenant, workspace: name, agent } = identity;
    try {
      const order = { tenant, workspace: name, sessionId, agent, processRequest, home };
      const { refused, policy, notices } = await workspace.place(order);
      if (!this.#parts.journal.state) return;
      this.#parts.webhooks.want(notices);
      this.#record((batch) => {
        setPolicy(batch, policy);
        if (refused !== null) unavailable(batch, refused);
      });
    } catch (error) {
      // The deadline for the start is set: if nobody hears of the process request, the client hears of that.
      console.error("place failed", { sessionId, error: String(error) });
    }
  }

  // ---- time -------------------------------------------------------------------------------------------

  /** Serves each deadline of the session but that of the host's token. */
  handlers(state: SessionState): Record<Exclude<SessionDeadline, "host-token">, DeadlineHandler> {
    const { archive, index, webhooks } = this.#parts;
    return {
      place: () => this.#place(state),
      "agent-start": () => this.#startTimedOut(state),
      idle: () => this.#record((batch) => checkIdle(batch)),
      permission: () => this.#permissionsTimedOut(state),
      archive: () => archive.archiveOldest(state, this.#record),
      index: () => index.write(state),
      notices: () => webhooks.handOver(state),
      release: () => this.#release(state),
    };
  }

  async #startTimedOut(state: SessionState): Promise<void> {
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
      const waitsFor = await workspaceOf(this.#env, state)?.explain(state.sessionId);
      return waitsFor ? `${reason}: waited for ${waitsFor}` : reason;
    } catch (error) {
      console.error("explain failed", { sessionId: state.sessionId, error: String(error) });
      return reason;
    }
  }

  /** The workspace need not keep a place for a session that has no process and wants none. */
  async #release(state: SessionState): Promise<void> {
    if (state.run || state.agent === "starting") return;
    try {
      await workspaceOf(this.#env, state)?.release(state.sessionId, state.processRequest);
    } catch (error) {
      console.error("release failed", { sessionId: state.sessionId, error: String(error) });
      this.#parts.deadlines.setUnlessSet("release", Date.now() + this.#limits.hostStatusRetryMs);
    }
  }

  #permissionsTimedOut(state: SessionState): void {
    this.#record((batch) => expirePermissions(batch));
    const next = nextTimeout(state);
    if (next !== null) this.#parts.deadlines.set("permission", next);
  }
}
