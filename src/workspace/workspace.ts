import { Deadlines } from "../durable/deadlines.ts";
import { sessionObject } from "../durable/object-names.ts";
import { unavailableReason } from "../protocol/agent-availability.ts";
import type { GitState, HostSettings } from "../protocol/host-wire.ts";
import type { Limits } from "../protocol/limits.ts";
import { accepted, type Result, refused } from "../protocol/refusal.ts";
import type { CreatedWebhook, WorkspaceView } from "../protocol/rest.ts";
import type { PlacementAnswer, PlacementRequest } from "../protocol/rpc.ts";
import type { HandedMessage, WebhookMessageType } from "../protocol/webhook-messages.ts";
import type { SettingsChange } from "../protocol/workspace-settings.ts";
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
import { SecretStore } from "./secrets/secret-store.ts";
import { SessionOutbox } from "./session-outbox.ts";
import { type WorkspaceIdentity, WorkspaceStore } from "./store.ts";
import { indexRow, SESSIONS_SHOWN, viewOf } from "./view.ts";
import { ViewWatchers } from "./view-watchers.ts";
import { type WebhookOrder, Webhooks } from "./webhooks/webhooks.ts";

type DeadlineName =
  | "grace"
  | "silence"
  | "session-messages"
  | "view"
  | "index"
  | "host-token"
  | "container"
  | "container-token"
  | "webhooks";

/**
 * A workspace: the hosts that serve it, the agents they offer, and which host runs which session. This class connects
 * the parts. Every operation that changes something ends with `#after`, which runs the effects of the change.
 */
export class Workspace {
  readonly store: WorkspaceStore;
  readonly secrets: SecretStore;
  readonly webhooks: Webhooks;
  readonly hosts: HostConnections;
  readonly agents: AgentSelection;
  readonly watchers: ViewWatchers;
  readonly #ctx: DurableObjectState;
  readonly #env: Env;
  readonly #limits: Limits;
  readonly #deadlines: Deadlines<DeadlineName>;
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
    const deadlines = new Deadlines<DeadlineName>(ctx.storage);
    const registry = new HostRegistry(sql, store);
    const offers = new AgentOffers(sql, store);
    const sockets = new HostSockets(ctx, limits.probeMs);
    const placements = new Placements(sql, store);
    const outbox = new SessionOutbox(sql, (id) => this.#session(id));
    const departures = new HostDepartures(store, placements, registry, outbox, deadlines);
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
    this.#index = new WorkspaceIndexWriter(env.INDEX, store, deadlines, limits.indexRetryMs);
    this.store = store;
    this.secrets = new SecretStore(sql, store, env.SECRETS_KEY);
    this.webhooks = new Webhooks({ ctx, env, limits, store, timers: deadlines, callbacks });
    this.watchers = new ViewWatchers(ctx, limits.watchersPerWorkspace, (id) => JSON.stringify(this.view(id)));
    this.agents = new AgentSelection({
      agents: () => scheduler.agents(),
      defaultAgent: () => store.settings().defaultAgent,
      sockets,
      onDemand,
      maxWaitMs: limits.agentStartMs,
    });
    this.hosts = new HostConnections({
      ...{ ctx, env, limits, timers: deadlines, hosts: registry, offers, sockets },
      ...{ departures, placements, onDemand },
      settings: () => this.#hostSettings(),
      secrets: () => this.#decryptSecrets(),
      after: (change) => this.#after(change),
    });
    this.hosts.markVanished();
  }

  // ---- sessions ---------------------------------------------------------------------------------------

  /** Places a session on a host. A session for which there is no host waits. */
  place(request: PlacementRequest): PlacementAnswer {
    const { sessionId: session, agent, processRequest, home } = request;
    this.store.create(request);
    const { policy } = this.store.settings();
    const webhookTypes = this.webhooks.wanted();
    const reason = agent === "" ? undefined : unavailableReason(this.#scheduler.agents(), agent);
    if (reason !== undefined) return { unavailable: reason, policy, webhookTypes };
    this.#placements.request({ session, agent, processRequest, home });
    void this.#after("process-request");
    return { unavailable: null, policy, webhookTypes };
  }

  /** The session has no process any more and needs none. Its host may have room for a waiting session. */
  release(sessionId: string, processRequest: number): void {
    if (!this.store.exists) return;
    if (this.#placements.get(sessionId)?.host === CONTAINER_HOST) this.#onDemand.markUsed();
    this.#placements.remove(sessionId, processRequest);
    this.#registry.prune(Date.now());
    void this.#after("process-request");
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
    if (change.clientIo !== undefined)
      for (const { ws } of this.#sockets.all()) sendControl(ws, { t: "settings", ...this.#hostSettings() });
    await this.#after("hosts");
    return accepted(this.view(identity.workspace));
  }

  #hostSettings(): HostSettings {
    const { clientIo } = this.store.settings();
    return clientIo === "host" ? {} : { clientIo };
  }

  // ---- secrets and webhooks ---------------------------------------------------------------------------

  async putSecret(identity: WorkspaceIdentity, name: string, value: string): Promise<Result<undefined>> {
    this.store.create(identity);
    const result = await this.secrets.put(name, value);
    if (result.ok) await this.#sendSecrets();
    return result;
  }

  async deleteSecret(name: string): Promise<Result<undefined>> {
    const result = this.secrets.remove(name);
    if (result.ok) await this.#sendSecrets();
    return result;
  }

  async #sendSecrets(): Promise<void> {
    this.#offers.resetAvailability();
    const values = await this.#decryptSecrets();
    for (const { ws } of this.#sockets.all()) sendControl(ws, { t: "secrets", values });
  }

  /**
   * Blocks all other events meanwhile: the reports of a host must not overtake its hello, and an older list of
   * secrets must not overtake a newer one.
   */
  #decryptSecrets(): Promise<Record<string, string>> {
    return this.#ctx.blockConcurrencyWhile(() => this.secrets.decryptAll());
  }

  async createWebhook(identity: WorkspaceIdentity, order: WebhookOrder): Promise<Result<CreatedWebhook>> {
    this.store.create(identity);
    const result = await this.webhooks.create(order);
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
      containerDraining: () => this.#departures.markDraining(CONTAINER_HOST),
      wantedWebhookTypesChanged: (types) => this.#sendWantedWebhookTypes(types),
    };
  }

  async #containerLastUsed(): Promise<number | null> {
    const sessions = this.#placements.on(CONTAINER_HOST);
    const times = await Promise.all(sessions.map(({ session }) => this.#session(session).lastActiveAt()));
    return times.includes(null) ? null : Math.max(0, ...times.map((at) => at ?? 0));
  }

  /** A session without a process learns the types when it gets a process. */
  #sendWantedWebhookTypes(types: WebhookMessageType[]): void {
    for (const { session } of this.#placements.all())
      this.#outbox.add(session, { kind: "webhook-types", body: types });
    this.#deadlines.setUnlessSet("session-messages", Date.now());
  }

  // ---- effects and deadlines --------------------------------------------------------------------------

  #after(change: WorkspaceChange): Promise<void> {
    return applyEffects(change, this.#effects);
  }

  readonly #effects: EffectHandlers = {
    place: () => this.#scheduler.placeWaiting(),
    show: () => {
      if (!this.watchers.isEmpty) this.#deadlines.setUnlessSet("view", Date.now() + this.#limits.viewDelayMs);
    },
    index: () => this.#deadlines.setUnlessSet("index", Date.now() + this.#limits.indexDelayMs),
    // While no session depends on a host, nothing needs to wake this object.
    watch: () => {
      if (this.#placements.counts().size > 0 && this.#sockets.all().length > 0)
        this.#deadlines.setUnlessSet("silence", Date.now() + this.#limits.hostSilentMs);
    },
    wake: () => this.agents.wake(),
    deliver: async () => {
      if (await this.#outbox.deliver()) this.#deadlines.clear("session-messages");
      else this.#deadlines.set("session-messages", Date.now() + this.#limits.hostStatusRetryMs);
    },
  };

  async runDeadlines(now: number): Promise<void> {
    if (!this.store.exists) return;
    await this.#deadlines.run(now, {
      grace: async () => {
        this.#departures.notifyOverdue();
        await this.#after("hosts");
      },
      silence: async () => {
        await this.hosts.checkSilent();
        await this.#after("silence-check");
      },
      "session-messages": () => this.#after("session-messages"),
      view: () => this.watchers.feed(),
      container: async () => {
        await this.#onDemand.check();
        await this.#after("hosts");
      },
      "container-token": () => this.#renewContainerToken(),
      index: () => this.#writeIndex(),
      webhooks: () => this.webhooks.deliver(),
      "host-token": () => this.hosts.checkTokens(),
    });
  }

  async #renewContainerToken(): Promise<void> {
    const token = await this.#onDemand.newToken();
    const ws = this.#sockets.of(CONTAINER_HOST)?.ws;
    if (ws && token !== undefined) sendControl(ws, { t: "token", token });
  }

  async #writeIndex(): Promise<void> {
    const identity = this.store.identity();
    if (identity) await this.#index.write(indexRow(identity, this.view(identity.workspace)));
  }

  /** The sessions of a workspace belong to its tenant. */
  #session(id: string) {
    return sessionObject(this.#env, this.store.identity()?.tenant ?? "", id);
  }
}
