import type { Limits } from "../protocol/limits.ts";
import { type Act, audit } from "../tenant/client/audit.ts";
import { nextTimeout } from "./core/decide/policy.ts";
import { FACTS, type Facts } from "./core/events/catalogue.ts";
import { type FactEvent, isFact, type LogEvent } from "./core/events/event.ts";
import type { SessionState } from "./core/state/state.ts";
import type { ProcessRequests } from "./outbox/process-requests.ts";
import type { SessionContext, SessionParts } from "./session-parts.ts";

/**
 * The effects of events on others, once the events are in the log: a process is requested or stopped, deadlines are set,
 * the index, the audit log and webhooks are told.
 */
export class Effects {
  readonly #ctx: DurableObjectState;
  readonly #env: Env;
  readonly #limits: Limits;
  readonly #parts: SessionParts;
  readonly #processes: ProcessRequests;

  constructor({ ctx, env, limits }: SessionContext, parts: SessionParts, processes: ProcessRequests) {
    this.#ctx = ctx;
    this.#env = env;
    this.#limits = limits;
    this.#parts = parts;
    this.#processes = processes;
  }

  after(state: SessionState, events: readonly LogEvent[]): void {
    const { deadlines, link, index, archive, webhooks } = this.#parts;
    webhooks.collect(state, events);
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
        this.#processes.request(state, event.seq);
        return deadlines.setUnlessSet("idle", Date.now() + this.#limits.idleMs);
      case "session.requested":
        return this.#processes.request(state, event.seq);
      case "runtime.reconnect_attempt":
        return this.#processes.request(state, event.seq, event.payload.delayMs ?? 0);
      case "agent.login":
        return this.#ctx.waitUntil(this.#relayLogin(state, event.payload));
      case "queue.owner.lease_renewed":
        return deadlines.set("idle", event.payload.until);
      case "permission.responded":
        return this.#auditAnswer(state, event.payload);
    }
  }

  audit({ identity, sessionId }: SessionState, act: Act): void {
    if (!identity) return;
    const { tenant, workspace } = identity;
    this.#ctx.waitUntil(audit(this.#env, tenant, { ...act, workspace, session: sessionId }));
  }

  /** Only answers of people are audited. An answer of the workspace's policy has no subject. */
  #auditAnswer(state: SessionState, { request, outcome, subject }: Facts["permission.responded"]): void {
    if (subject === undefined) return;
    const detail = { request, outcome: JSON.stringify(outcome) };
    this.audit(state, { kind: "permission.answered", subject, detail });
  }

  async #relayLogin(
    { sessionId }: SessionState,
    { request, connection }: Facts["agent.login"],
  ): Promise<void> {
    const raw = this.#parts.journal.frameAt(request)?.frame.raw;
    try {
      if (raw !== undefined) await this.#env.ACP_CONNECTION_DO.getByName(connection).relay(sessionId, raw);
    } catch (error) {
      // The agents of the client's other sessions ask for a login themselves when they need one.
      console.warn("login not relayed", { sessionId, error: String(error) });
    }
  }
}
