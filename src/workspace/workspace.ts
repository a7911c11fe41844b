import { Deadlines } from "../durable/deadlines.ts";
import { NameList } from "../durable/name-list.ts";
import { callObject } from "../durable/object-call.ts";
import { sessionObject } from "../durable/objects.ts";
import { SocketRegistrar } from "../durable/socket-registrar.ts";
import { registeredSockets } from "../durable/socket-registration.ts";
import { unavailableReason } from "../protocol/agent-availability.ts";
import type { GitState } from "../protocol/host-wire.ts";
import type { Limits } from "../protocol/limits.ts";
import type { Maker } from "../protocol/maker.ts";
import { openingRules } from "../protocol/opening-rules.ts";
import { accepted, type Result, refused } from "../protocol/refusal.ts";
import type { CreatedWebhook, WorkspaceView } from "../protocol/rest.ts";
import type { PlacementAnswer, PlacementRequest, ProcessPlacement } from "../protocol/rpc.ts";
import type { HostTokenName } from "../protocol/subject-rpc.ts";
import type { HandedMessage, WebhookMessageType } from "../protocol/webhook-messages.ts";
import type { SettingsChange } from "../protocol/workspace-settings.ts";
import { AgentModes } from "./agents/modes.ts";
import { AgentOffers } from "./agents/offers.ts";
import { AgentSelection } from "./agents/selection.ts";
import type { WorkspaceCallbacks } from "./callbacks.ts";
import { applyEffects, type EffectHandlers, type WorkspaceChange } from "./changes.ts";
import { OnDemandHost } from "./container/on-demand-host.ts";
import { CONTAINER_HOST, missingConfiguration } from "./container/starter.ts";
import { HostConnections } from "./hosts/connections.ts";
import { HostDepartures } from "./hosts/departures.ts";
import { HostRegistry } from "./hosts/registry.ts";
import { HostSockets, sendControl } from "./hosts/sockets.ts";
import { WorkspaceIndexWriter } from "./index-writer.ts";
import { Placements } from "./placement/placements.ts";
import { isOverdue } from "./placement/policy.ts";
import { PlacementScheduler } from "./placement/scheduler.ts";
import { WorkspaceReindex } from "./reindex.ts";
import { WorkspaceSecrets } from "./secrets/workspace-secrets.ts";
import { SessionOutbox } from "./session-outbox.ts";
import { type WorkspaceIdentity, WorkspaceStore } from "./store.ts";
import { indexRow, SESSIONS_SHOWN, viewOf } from "./view.ts";
import { isWatcher, ViewWatchers } from "./view-watchers.ts";
import { type WebhookOrder, Webhooks } from "./webhooks/webhooks.ts";
import { EFFECTS_RETRY_MS, type WorkspaceDeadline } from "./workspace-deadline.ts";

/**
 * A workspace: the hosts that serve it, the agents they offer, and which host runs which session. This class connects
 * the parts. Every operation that changes something ends with `#after`, which runs the effects of the change.
 */
export class Workspace {
  readonly store: WorkspaceStore;
  readonly modes: AgentModes;
  readonly secrets: WorkspaceSecrets;
  readonly webhooks: Webhooks;
  readonly hosts: HostConnections;
  readonly agents: AgentSelection;
  readonly watchers: ViewWatchers;
  readonly registrar: SocketRegistrar;
  /** Every session of the workspace. */
  readonly sessions: NameList;
  readonly reindex: WorkspaceReindex;
  readonly #ctx: DurableObjectState;
  readonly #env: Env;
  readonly #limits: Limits;
  readonly #deadlines: Deadlines<WorkspaceDeadline>;
  readonly #registry: HostRegistry;
  readonly #offers: AgentOffers;
  readonly #sockets: HostSockets;
  readonly #placements: Placements;
  readonly #scheduler: PlacementScheduler;
  readonly #departures: HostDepartures;
  readonly #onDemand: OnDemandHost;
  readonly #outbox: SessionOutbox;
  readonly #index: WorkspaceIndexWriter;

  constructor(ctx: DurableObjectState, env: Env, limits: Limits) {
    const { sql } = ctx.storage;
    const store = new WorkspaceStore(ctx.storage, limits);
    const offers = new AgentOffers(sql, store);
    const modes = new AgentModes(store);
    const sockets = new HostSockets(ctx, limits.probeMs);
    const registry = new HostRegistry(sql, store, () => sockets.signs());
    const placements = new Placements(sql, store);
    const deadlines = new Deadlines<WorkspaceDeadline>(ctx.storage, {
      everyMs: limits.hostCheckMs,
      // While no session depends on a host, nothing needs to wake this object.
      isNeeded: () => sockets.all().length > 0 && placements.counts().size > 0,
      make: () => this.checkHosts(),
    });
    const outbox = new SessionOutbox(sql, (id) => this.#session(id), limits);
    const departures = new HostDepartures(store, placements, registry, outbox, deadlines, limits);
    const callbacks = this.#callbacks();
    const onDemand = new OnDemandHost(ctx, env, limits, store, deadlines, callbacks);
    const scheduler = new PlacementScheduler({
      store,
      placements,
      hosts: registry,
      offers,
      sockets,
      onDemand,
    });
    this.#ctx = ctx;
    this.#env = env;
    this.#limits = limits;
    this.#deadlines = deadlines;
    this.#registry = registry;
    this.#offers = offers;
    this.#sockets = sockets;
    this.#placements = placements;
    this.#scheduler = scheduler;
    this.#departures = departures;
    this.#onDemand = onDemand;
    this.#outbox = outbox;
    this.#index = new WorkspaceIndexWriter(env, store);
    this.store = store;
    this.modes = modes;
    this.sessions = new NameList(ctx.storage.kv, "session:");
    this.reindex = new WorkspaceReindex({
      ...{ index: env.INDEX, store, sessions: this.sessions, timers: deadlines },
      visit: (id, name) =>
        callObject(
          () => this.#session(id),
          (session) => session.reindex(name),
          { timeoutMs: limits.callMs },
        ),
      writeOwnRow: () => this.#writeIndex({ isForced: true }),
    });
    this.secrets = new WorkspaceSecrets({ ctx, env, store, offers, sockets });
    this.webhooks = new Webhooks({ ctx, env, limits, store, timers: deadlines, callbacks });
    this.watchers = new ViewWatchers(ctx, limits.watchersPerWorkspace, (id) => JSON.stringify(this.view(id)));
    this.agents = new AgentSelection({
      agents: () => scheduler.agents(),
      settings: () => store.settings(),
      modesOf: (agent) => modes.of(agent),
      sockets,
      onDemand,
      maxWaitMs: limits.agentStartMs,
    });
    this.registrar = new SocketRegistrar({
      ...{ ctx, env, limits, deadlines },
      isOpen: (id) => registeredSockets(ctx, id).length > 0,
      end: (id, reason, code) => this.endSocket(id, reason, code),
    });
    this.hosts = new HostConnections({
      ...{ ctx, env, limits, timers: deadlines, hosts: registry, offers, sockets, store },
      ...{ departures, placements, onDemand },
      secrets: () => this.secrets.decrypt(),
      after: (change) => this.#after(change),
      runAfter: (change) => this.#runAfter(change),
    });
    this.hosts.markVanished();
  }

  // ---- sessions ---------------------------------------------------------------------------------------

  /** Places a session on a host. A session for which there is no host waits. */
  place(request: PlacementRequest): PlacementAnswer {
    const { sessionId: session, agent, processRequest, home } = request;
    this.store.create(request);
    const { policy } = this.store.settings();
    const reason = agent === "" ? undefined : unavailableReason(this.#scheduler.agents(), agent);
    const modes = this.modes.of(agent);
    const answer = { policy, webhookTypes: this.webhooks.wanted(), enrolled: true, modes } as const;
    this.sessions.add(session);
    if (reason !== undefined) return { unavailable: reason, ...answer };
    this.#placements.request({ session, agent, processRequest, home });
    this.#runAfter("process-request");
    return { unavailable: null, ...answer };
  }

  /** The session has no process any more and needs none. Its host may have room for a waiting session. */
  release(sessionId: string, processRequest: number): void {
    if (!this.store.exists) return;
    if (this.#placements.get(sessionId)?.host === CONTAINER_HOST) this.#onDemand.markUsed();
    this.#placements.remove(sessionId, processRequest);
    this.#registry.prune(Date.now(), this.#placements, this.#offers);
    this.#runAfter("process-request");
  }

  placementOf(sessionId: string, processRequest: number): ProcessPlacement | null {
    const placement = this.#placements.get(sessionId);
    if (placement?.processRequest !== processRequest || placement.host === null) return null;
    const settings = this.store.settings();
    const { host, io } = placement;
    const { closeMeans, duplicateChunks } = settings;
    return { host, io, opening: openingRules(settings), closeMeans, duplicateChunks };
  }

  explain(sessionId: string): string | null {
    return this.#scheduler.explain(sessionId);
  }

  gitOf(host: string | null): GitState | null {
    return (host === null ? undefined : this.#registry.get(host)?.git) ?? null;
  }

  takeWebhookMessages(messages: readonly HandedMessage[]): WebhookMessageType[] {
    this.webhooks.take(messages);
    return this.webhooks.wanted();
  }

  // ---- settings and view ------------------------------------------------------------------------------

  view(id: string): WorkspaceView {
    const source = {
      hosts: this.#registry.all(),
      offers: this.#offers.all(),
      settings: this.store.settings(),
      counts: this.#placements.counts(),
      placements: this.#placements.all(SESSIONS_SHOWN),
      container: this.#onDemand.state,
      containerTokens: this.#onDemand.tokens,
    };
    return viewOf(id, source, this.#limits, Date.now());
  }

  /** Changes settings, for running sessions too. A session that cannot be reached is told later. */
  async update(identity: WorkspaceIdentity, change: SettingsChange): Promise<Result<WorkspaceView>> {
    const missing = change.container ? missingConfiguration(this.#env) : undefined;
    if (missing !== undefined) return refused({ reason: "invalid", message: missing });
    this.store.create(identity);
    this.store.changeSettings(change);
    if (change.policy) {
      for (const { session } of this.#placements.all())
        this.#outbox.add(session, { kind: "policy", body: change.policy });
    }
    if (change.sharedFiles !== undefined || change.hostGraceMs !== undefined) {
      this.#registry.resetNotified();
      this.#departures.notifyOverdue();
    }
    if (change.container !== undefined) this.#onDemand.reconsider();
    await this.#after("hosts");
    return accepted(this.view(identity.workspace));
  }

  // ---- webhooks ---------------------------------------------------------------------------------------

  async createWebhook(
    identity: WorkspaceIdentity,
    order: WebhookOrder,
    maker: Maker,
  ): Promise<Result<CreatedWebhook>> {
    this.store.create(identity);
    const result = await this.webhooks.create(order, maker);
    await this.#after("session-messages");
    return result;
  }

  async deleteWebhook(id: string): Promise<Result<undefined>> {
    const result = this.webhooks.remove(id);
    if (result.ok) await this.#after("session-messages");
    return result;
  }

  // ---- container --------------------------------------------------------------------------------------

  async containerEnded(startNumber: number, reason: string): Promise<void> {
    if (!this.store.exists || !this.#onDemand.markEnded(startNumber, reason)) return;
    this.hosts.abandon(CONTAINER_HOST, "ended");
    this.#registry.markEnded(CONTAINER_HOST, Date.now());
    this.#departures.notifyOverdue();
    await this.#after("hosts");
  }

  isContainerWanted(startNumber: number): boolean {
    return this.#onDemand.isWanted(startNumber);
  }

  #callbacks(): WorkspaceCallbacks {
    return {
      containerLastUsed: () => this.#containerLastUsed(),
      isContainerExpected: () => {
        const host = this.#registry.get(CONTAINER_HOST);
        return host !== undefined && !isOverdue(host, this.store.settings().hostGraceMs, Date.now());
      },
      containerEnded: (startNumber, reason) => this.containerEnded(startNumber, reason),
      decryptSecrets: () => this.secrets.decrypt(),
      containerDraining: () => this.#departures.markDraining(CONTAINER_HOST),
      wantedWebhookTypesChanged: (types) => this.#sendWantedWebhookTypes(types),
    };
  }

  async #containerLastUsed(): Promise<number | null> {
    const sessions = this.#placements.on(CONTAINER_HOST);
    const times = await Promise.all(
      sessions.map(({ session }) =>
        callObject(
          () => this.#session(session),
          (object) => object.lastActiveAt(),
        ),
      ),
    );
    return times.includes(null) ? null : Math.max(0, ...times.map((at) => at ?? 0));
  }

  /** A session without a process learns the types when it gets a process. */
  #sendWantedWebhookTypes(types: WebhookMessageType[]): void {
    for (const { session } of this.#placements.all())
      this.#outbox.add(session, { kind: "webhook-types", body: types });
    this.#deadlines.setAtMost("session-messages", Date.now());
  }

  // ---- effects and deadlines --------------------------------------------------------------------------

  #after(change: WorkspaceChange): Promise<void> {
    return applyEffects(change, this.#effects);
  }

  /** Runs the effects of a change that is made. Whoever made it does not wait for them; a deadline repeats what failed. */
  #runAfter(change: WorkspaceChange): void {
    const done = this.#after(change).catch((error: unknown) => {
      console.error("effects of a change failed", { change, error: String(error) });
      if (this.store.exists) this.#deadlines.setUnlessSet("effects", Date.now() + EFFECTS_RETRY_MS);
    });
    this.#ctx.waitUntil(done);
  }

  readonly #effects: EffectHandlers = {
    place: () => this.#scheduler.placeWaiting(),
    show: () => {
      if (!this.watchers.isEmpty) this.#deadlines.setUnlessSet("view", Date.now() + this.#limits.viewDelayMs);
    },
    index: () => this.#deadlines.setUnlessSet("index", Date.now() + this.#limits.indexDelayMs),
    watch: () => this.#deadlines.beginRounds(),
    wake: () => this.agents.wake(),
    deliver: async () => {
      const next = await this.#outbox.deliver();
      if (next === null) this.#deadlines.clear("session-messages");
      else this.#deadlines.set("session-messages", Math.max(next, Date.now()));
    },
  };

  async runDeadlines(now: number): Promise<void> {
    await this.#deadlines.run(now, {
      grace: async () => {
        this.#departures.notifyOverdue();
        await this.#after("hosts");
      },
      "session-messages": () => this.#after("session-messages"),
      effects: () => this.#after("hosts"),
      view: () => this.watchers.feed(),
      container: async () => {
        await this.#onDemand.check();
        await this.#after("hosts");
      },
      "container-token": () => this.#renewContainerToken(),
      "ended-tokens": () => this.#onDemand.endTokens(),
      index: () => this.#writeIndex(),
      reindex: () => this.reindex.proceed(),
      webhooks: () => this.webhooks.deliver(),
      "host-token": () => this.hosts.checkTokens(),
      registration: () => this.registrar.retry(),
    });
  }

  /** Ends the sockets of a host's token here and in the placed sessions. Throws if a session has not confirmed. */
  async endHostToken(token: HostTokenName): Promise<number> {
    const own = this.hosts.endToken(token);
    const placed = this.#placements.all().filter(({ host }) => host !== null);
    const ended = await Promise.all(placed.map(({ session }) => this.#session(session).endHostToken(token)));
    return ended.reduce((sum, sockets) => sum + sockets, own);
  }

  /** The socket of a host or of a watcher may not go on. */
  endSocket(id: string, reason: string, code: number): void {
    for (const ws of registeredSockets(this.#ctx, id)) {
      if (isWatcher(ws)) ws.close(code, reason);
      else this.hosts.dismiss(ws, reason);
    }
  }

  /** Looks for hosts that are silent, and tells the sessions of those that are gone. */
  async checkHosts(): Promise<void> {
    await this.hosts.checkSilent();
    await this.#after("silence-check");
  }

  async #renewContainerToken(): Promise<void> {
    const token = await this.#onDemand.newToken();
    const ws = this.#sockets.of(CONTAINER_HOST)?.ws;
    if (ws && token !== undefined) sendControl(ws, { t: "token", token });
  }

  async #writeIndex(how?: { isForced: true }): Promise<void> {
    const identity = this.store.identity();
    if (identity) await this.#index.write(indexRow(identity, this.view(identity.workspace)), how);
  }

  /** Takes up a session that was opened, imported or copied into the workspace. */
  enroll(identity: WorkspaceIdentity, sessionId: string): void {
    this.store.create(identity);
    this.sessions.add(sessionId);
    if (!this.#index.isKnown) this.#effects.index();
  }

  /** The sessions of a workspace belong to its tenant. */
  #session(id: string) {
    return sessionObject(this.#env, this.store.identity()?.tenant ?? "", id);
  }
}
