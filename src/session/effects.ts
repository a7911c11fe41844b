import { callObject } from "../durable/object-call.ts";
import { connectionObject, owningTenant } from "../durable/objects.ts";
import type { Limits } from "../protocol/limits.ts";
import { type Act, audit } from "../tenant/client/audit.ts";
import { awaitsFarewell } from "./core/decide/farewell.ts";
import { nextTimeout } from "./core/decide/policy.ts";
import { isRestoring } from "./core/decide/queue.ts";
import { FACTS, type Facts } from "./core/events/catalogue.ts";
import { type FactEvent, isFact, type LogEvent } from "./core/events/event.ts";
import type { SessionState } from "./core/state/state.ts";
import type { ProcessRequests } from "./outbox/process-requests.ts";
import type { Rest } from "./rest.ts";
import { callWorkspace, type SessionContext, type SessionParts } from "./session-parts.ts";

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
  readonly #rest: Rest;
  /** A process that is to end may answer the farewell first. An object that is evicted goes by the deadline. */
  #isParting = false;

  constructor(
    { ctx, env, limits }: SessionContext,
    parts: SessionParts,
    processes: ProcessRequests,
    rest: Rest,
  ) {
    this.#ctx = ctx;
    this.#env = env;
    this.#limits = limits;
    this.#parts = parts;
    this.#processes = processes;
    this.#rest = rest;
  }

  after(state: SessionState, events: readonly LogEvent[]): void {
    const { deadlines, index, archive, webhooks } = this.#parts;
    webhooks.collect(state, events);
    if (this.#isParting && !awaitsFarewell(state)) this.endFarewell(state);
    if (archive.isDue(state)) deadlines.setUnlessSet("archive", Date.now());
    const facts = events.filter(isFact);
    if (facts.length === 0) return;
    const traits = facts.map(({ kind }) => FACTS[kind]);
    for (const fact of facts) this.#afterFact(state, fact);
    if (state.agent === "ready" && traits.some((fact) => fact.opensAgentSession)) {
      deadlines.clear("agent-start");
      deadlines.setUnlessSet("idle", Date.now() + this.#limits.idleMs);
      if (isRestoring(state)) deadlines.set("settings", Date.now() + this.#limits.settingsMs);
      this.#ctx.waitUntil(this.#processes.reportModes(state));
    }
    for (const { stopsProcess } of traits) if (stopsProcess !== undefined) this.#stop(state, stopsProcess);
    if (!state.run && state.agent !== "starting" && traits.some((fact) => fact.freesPlacement))
      deadlines.set("release", Date.now());
    if (traits.some((fact) => fact.movesTimeout)) {
      const at = nextTimeout(state);
      if (at !== null) deadlines.set("permission", at);
    }
    const listed = traits.map((fact) => fact.listed);
    // The deadline is the outbox: it outlives a crash.
    if (index.isDue(listed)) deadlines.setUnlessSet("index", Date.now() + this.#limits.indexDelayMs);
    if (index.isUrgent(state, listed)) this.#ctx.waitUntil(index.writeOrRetry(state));
  }

  /** An agent that was told of the end of its session gets some time for its answer. */
  #stop(state: SessionState, reason: string): void {
    const { link, deadlines } = this.#parts;
    if (!awaitsFarewell(state)) return link.stop(reason);
    this.#isParting = true;
    deadlines.set("farewell", Date.now() + this.#limits.farewellMs);
  }

  /** Serves a deadline as well: the agent has answered, or has had its time. */
  endFarewell({ run }: SessionState): void {
    const { link, deadlines } = this.#parts;
    this.#isParting = false;
    deadlines.clear("farewell");
    if (run?.stopping) link.stop("closed");
  }

  /**
   * Some effects of the log have failed. The state says what has to follow from it: a process that is requested or given
   * back, deadlines, and the row of the index.
   */
  restore(state: SessionState): void {
    const { deadlines } = this.#parts;
    const now = Date.now();
    if (state.agent === "starting") this.#processes.request(state, state.processRequest);
    else if (!state.run) deadlines.set("release", now);
    if (state.run) deadlines.setUnlessSet("idle", now + this.#limits.idleMs);
    const timeout = nextTimeout(state);
    if (timeout !== null) deadlines.set("permission", timeout);
    if (isRestoring(state)) deadlines.setUnlessSet("settings", now + this.#limits.settingsMs);
    deadlines.setUnlessSet("index", now);
  }

  #afterFact(state: SessionState, event: FactEvent): void {
    const { deadlines } = this.#parts;
    switch (event.kind) {
      case "session.anticipated":
        this.#processes.request(state, event.seq);
        return deadlines.setUnlessSet("idle", Date.now() + this.#limits.idleMs);
      case "session.imported":
        return this.#rest.plan();
      case "session.requested":
        return this.#processes.request(state, event.seq);
      case "runtime.reconnect_attempt":
        return this.#processes.request(state, event.seq, event.payload.delayMs ?? 0);
      case "agent.login":
        return this.#relayLogin(state, event.payload);
      case "turn.started":
        return this.#lookForHost(state);
      case "queue.owner.lease_renewed":
        return deadlines.set("idle", event.payload.until);
      case "queue.owner.stopped":
        return this.#forgetCredentials(state);
      case "agent.settings.restored":
        return deadlines.clear("settings");
      case "permission.responded":
        return this.#auditAnswer(state, event.payload);
      case "question.responded":
        return this.#auditQuestion(state, event.payload);
    }
  }

  audit({ identity, sessionId }: SessionState, act: Act): void {
    if (!identity) return;
    const { tenant, workspace } = identity;
    this.#ctx.waitUntil(audit(this.#env, tenant, { ...act, workspace, session: sessionId }));
  }

  /** The next process gets the request that opened the session, the login, and what waits; no other credentials. */
  #forgetCredentials({ identity, brought, login, queue }: SessionState): void {
    const { journal, concealed } = this.#parts;
    const opening = [identity?.request ?? [], Object.values(brought ?? {})].flat();
    const needed = [opening, login ?? [], queue.map(({ seq }) => seq)].flat();
    concealed.keepOnly(needed.flatMap((seq) => journal.frameAt(seq)?.frame ?? []));
  }

  /** Only answers of people are audited. An answer of the workspace's policy has no subject. */
  #auditAnswer(state: SessionState, { request, outcome, subject }: Facts["permission.responded"]): void {
    if (subject === undefined) return;
    const detail = { request, outcome: JSON.stringify(outcome) };
    this.audit(state, { kind: "permission.answered", subject, detail });
  }

  #auditQuestion(state: SessionState, { request, action, subject }: Facts["question.responded"]): void {
    if (subject !== undefined)
      this.audit(state, { kind: "question.answered", subject, detail: { request, action } });
  }

  /** Somebody waits for the agent now: the workspace's next look for silent hosts may be minutes away. */
  #lookForHost(state: SessionState): void {
    if (!this.#parts.link.isSilent) return;
    const [env, limits] = [this.#env, this.#limits];
    this.#ctx.waitUntil(
      callWorkspace({ env, limits }, state, (workspace) => workspace.checkHosts()).catch((error: unknown) =>
        console.warn("silent host not probed", { sessionId: state.sessionId, error: String(error) }),
      ),
    );
  }

  /** A login or logout that the agent has accepted is kept until the client's connection has taken it. */
  #relayLogin(state: SessionState, { request, connection }: Facts["agent.login"]): void {
    const earlier = this.#logins().filter((login) => login.connection !== connection);
    this.#ctx.storage.kv.put(LOGINS, [...earlier, { request, connection }] satisfies Login[]);
    this.#parts.deadlines.set("login", Date.now() + this.#limits.callMs);
    this.#ctx.waitUntil(
      this.relayLogins(state).catch((error: unknown) =>
        console.warn("login not relayed", { sessionId: state.sessionId, error: String(error) }),
      ),
    );
  }

  /** Serves a deadline as well. An agent that gets a login twice is logged in. */
  async relayLogins({ sessionId, identity }: SessionState): Promise<void> {
    const { journal, concealed, deadlines } = this.#parts;
    const tenant = owningTenant(this.#ctx.id);
    for (const login of this.#logins()) {
      const logged = journal.frameAt(login.request)?.frame.raw;
      if (logged !== undefined)
        await callObject(
          () => connectionObject(this.#env, tenant, login.connection),
          (connection) => connection.relay(sessionId, concealed.reveal(logged), identity?.agent),
          { timeoutMs: this.#limits.callMs },
        );
      if (!journal.state) return;
      const rest = this.#logins().filter(
        ({ connection, request }) => connection !== login.connection || request !== login.request,
      );
      if (rest.length > 0) this.#ctx.storage.kv.put(LOGINS, rest);
      else this.#ctx.storage.kv.delete(LOGINS);
    }
    deadlines.clear("login");
  }

  #logins(): readonly Login[] {
    return this.#ctx.storage.kv.get<Login[]>(LOGINS) ?? [];
  }
}

/** The request of an accepted login, and the connection whose other sessions have yet to get it. */
type Login = { readonly request: number; readonly connection: string };

/** The key of the logins that are not relayed yet. */
const LOGINS = "unrelayed-logins";
