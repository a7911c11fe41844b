import { DurableObject } from "cloudflare:workers";
import { Deadlines } from "../durable/deadlines.ts";
import { objectName, sessionObject } from "../durable/object-names.ts";
import {
  register,
  registeredSockets,
  registrationFor,
  registrationOf,
  registrationTags,
  unregister,
} from "../durable/socket-registration.ts";
import { type WorkspaceRow, writeWorkspace } from "../index/workspace-index.ts";
import type { Caller } from "../protocol/caller.ts";
import { answerClose, CloseCode } from "../protocol/close-codes.ts";
import { type GitState, type HostSettings, LINK_VERSION } from "../protocol/host-wire.ts";
import { HOST, WATCH_WORKSPACE, type WorkspaceWatchRequest } from "../protocol/internal-headers.ts";
import { LIMITS } from "../protocol/limits.ts";
import type { PlacementAnswer, PlacementRequest } from "../protocol/rpc.ts";
import type { HandedNotice, NoticeType } from "../protocol/webhook-messages.ts";
import type { SettingsChange } from "../protocol/workspace-settings.ts";
import { type Act, type AuditKind, audit } from "../tenant/client/audit.ts";
import { whyNot } from "./agents/availability.ts";
import { type AgentChoice, AgentChoices } from "./agents/selection.ts";
import { OnDemandHost } from "./container/on-demand-host.ts";
import { CONTAINER_HOST } from "./container/starter.ts";
import { type Hello, parseControl } from "./hosts/control-messages.ts";
import { Departures } from "./hosts/departures.ts";
import { Hosts } from "./hosts/registry.ts";
import { HostSockets, sendControl } from "./hosts/sockets.ts";
import { HostTokens } from "./hosts/tokens.ts";
import { isOverdue } from "./placement/policy.ts";
import { Placing } from "./placement/scheduler.ts";
import { checkRight } from "./rights.ts";
import { type SecretInfo, SecretStore } from "./secrets/secrets.ts";
import { Words } from "./session-messages.ts";
import { Store } from "./store.ts";
import { indexRow, viewOf, type WorkspaceView } from "./view.ts";
import { Watchers } from "./view-watchers.ts";
import type { WebhookInfo } from "./webhooks/store.ts";
import { type MadeWebhook, type WebhookOrder, Webhooks } from "./webhooks/webhooks.ts";

export type { WorkspaceView } from "./view.ts";

/** Secrets of one workspace: all of them travel in one message. */
const SECRETS_MAX = 100;

/** One workspace: the hosts that serve it, the agents they offer, and which host runs which session. */
export class WorkspaceState extends DurableObject<Env> {
  readonly #store: Store;
  readonly #hosts: Hosts;
  readonly #sockets: HostSockets;
  readonly #words: Words;
  readonly #departures: Departures;
  readonly #watchers: Watchers;
  readonly #tokens: HostTokens;
  readonly #deadlines: Deadlines<
    | "grace"
    | "silence"
    | "words"
    | "show"
    | "index"
    | "host-token"
    | "container"
    | "container-token"
    | "webhooks"
  >;
  readonly #onDemand: OnDemandHost;
  readonly #placing: Placing;
  readonly #choices: AgentChoices;
  readonly #webhooks: Webhooks;
  /** Hellos that are being dealt with. They are calls in progress: nothing to restore. */
  readonly #greetings = new Map<WebSocket, Promise<void>>();

  constructor(ctx: DurableObjectState, env: Env) {
    super(ctx, env);
    const { sql } = ctx.storage;
    this.#store = new Store(ctx.storage);
    this.#hosts = new Hosts(sql, this.#store);
    this.#sockets = new HostSockets(ctx, (ws, reason) => this.#forget(ws, reason));
    this.#words = new Words(sql, (session) => this.#session(session));
    this.#watchers = new Watchers(ctx, (id) => JSON.stringify(this.#view(id)));
    this.#deadlines = new Deadlines(ctx.storage);
    this.#departures = new Departures(this.#store, this.#hosts, this.#words, this.#deadlines);
    this.#tokens = new HostTokens(ctx, env, this.#deadlines, (ws, reason) => this.#dismiss(ws, reason));
    this.#onDemand = new OnDemandHost(ctx, env, this.#store, this.#deadlines, {
      lastUse: () => this.#lastUse(),
      isExpected: () => {
        const host = this.#hosts.get(CONTAINER_HOST);
        return host !== undefined && !isOverdue(host, this.#store.settings().hostGraceMs, Date.now());
      },
      ended: (life, reason) => this.hostEnded(life, reason),
      leaves: () => {
        this.#departures.drains(CONTAINER_HOST);
      },
    });
    this.#placing = new Placing(this.#store, this.#hosts, this.#sockets, this.#onDemand);
    this.#choices = new AgentChoices(
      () => this.#placing.agents(),
      () => this.#store.settings().defaultAgent,
      this.#sockets,
      this.#onDemand,
    );
    this.#webhooks = new Webhooks(ctx, env, this.#deadlines, {
      exists: () => this.#store.exists,
      identity: () => this.#store.identity(),
      wantedChanged: (types) => this.#wantNotices(types),
    });
    ctx.setWebSocketAutoResponse(new WebSocketRequestResponsePair("ping", "pong"));
    // After a crash nobody has been told that the sockets are gone.
    for (const { name } of this.#hosts.present())
      if (!this.#sockets.of(name)) this.#goes(name, Date.now(), false);
  }

  // ---- for sessions and connections -------------------------------------------------------------------

  /** Puts a session on a host; with none that can have it, it waits. `refused` says why there will be none. */
  place(order: PlacementRequest): PlacementAnswer {
    const { sessionId: session, agent, processRequest: wish, home } = order;
    this.#store.create(order);
    const { policy } = this.#store.settings();
    const notices = this.#webhooks.wanted();
    const refused = agent === "" ? undefined : whyNot(this.#placing.agents(), agent);
    if (refused !== undefined) return { refused, policy, notices };
    const before = this.#store.placement(session);
    if (!before || before.wish < wish) this.#store.want({ session, agent, wish, home });
    this.#placing.settle();
    this.#changed();
    return { refused: null, policy, notices };
  }

  /** The session has no process any more and wants none. */
  release(sessionId: string, wish: number): void {
    if (!this.#store.exists) return;
    if (this.#store.placement(sessionId)?.host === CONTAINER_HOST) this.#onDemand.used();
    this.#store.release(sessionId, wish);
    this.#hosts.prune(Date.now());
    // Its host may have room for one that waits.
    this.#placing.settle();
    this.#changed();
  }

  /** What a session has been waiting for, in words for people. */
  explain(sessionId: string): string | null {
    return this.#placing.explain(sessionId);
  }

  /** The state of the files a session works on. */
  gitFor(host: string | null): GitState | null {
    return (host === null ? undefined : this.#hosts.get(host)?.git) ?? null;
  }

  /** The agent a connection asked for, or the default; waits a while for one that has not said yet what it can do. */
  choose(caller: Caller, wanted: string | null): Promise<AgentChoice> {
    checkRight(this.ctx.id, caller, "session:read", "session:prompt");
    return this.#choices.choose(wanted);
  }

  view(caller: Caller, id: string): WorkspaceView {
    checkRight(this.ctx.id, caller, "session:read", "session:prompt");
    return this.#view(id);
  }

  /** Changes settings. A new policy also holds for running sessions; one out of reach hears of it later. */
  async update(caller: Caller, workspace: string, change: SettingsChange): Promise<WorkspaceView> {
    checkRight(this.ctx.id, caller, "workspace:admin");
    this.#store.create({ tenant: caller.tenant, workspace });
    this.#store.change(change);
    if (change.policy) {
      for (const { session } of this.#store.placements())
        this.#words.add(session, { kind: "policy", body: change.policy });
    }
    if (change.sharedFiles !== undefined || change.hostGraceMs !== undefined) {
      for (const { name } of this.#hosts.all()) this.#hosts.told(name, false);
      this.#departures.giveUpAbsent();
    }
    if (change.container !== undefined) this.#onDemand.reconsider();
    if (change.clientIo !== undefined)
      for (const { ws } of this.#sockets.all()) sendControl(ws, { t: "settings", ...this.#hostSettings() });
    await this.#goOn();
    return this.#view(workspace);
  }

  #view(id: string): WorkspaceView {
    return viewOf(id, this.#store, this.#hosts, this.#onDemand.life);
  }

  // ---- for containers ---------------------------------------------------------------------------------

  /** The container has ended, or could not be started. */
  async hostEnded(life: number, reason: string): Promise<void> {
    if (!this.#store.exists || !this.#onDemand.ended(life, reason)) return;
    const ws = this.#sockets.of(CONTAINER_HOST)?.ws;
    // If it is there after all, it dials again and is greeted anew.
    if (ws) this.#forget(ws, "ended");
    ws?.close(CloseCode.abandoned, "ended");
    this.#hosts.ended(CONTAINER_HOST, Date.now());
    this.#departures.giveUpAbsent();
    await this.#goOn();
  }

  isHostWanted(life: number): boolean {
    return this.#onDemand.isWanted(life);
  }

  #hostSettings(): HostSettings {
    const { clientIo } = this.#store.settings();
    return clientIo === "host" ? {} : { clientIo };
  }

  // ---- secrets: for hosts only ------------------------------------------------------------------------

  secrets(caller: Caller): SecretInfo[] {
    checkRight(this.ctx.id, caller, "workspace:admin");
    return this.#store.exists ? this.#secrets().list() : [];
  }

  async putSecret(
    caller: Caller,
    workspace: string,
    { name, value }: { name: string; value: string },
  ): Promise<"put" | "no key" | "too many"> {
    checkRight(this.ctx.id, caller, "workspace:admin");
    this.#store.create({ tenant: caller.tenant, workspace });
    const store = this.#secrets();
    if (store.list().length >= SECRETS_MAX && !store.list().some((one) => one.name === name))
      return "too many";
    if (!(await store.put(name, value))) return "no key";
    await this.#tellSecrets();
    return "put";
  }

  async deleteSecret(caller: Caller, name: string): Promise<boolean> {
    checkRight(this.ctx.id, caller, "workspace:admin");
    const removed = this.#store.exists && this.#secrets().remove(name);
    if (removed) await this.#tellSecrets();
    return removed;
  }

  async #tellSecrets(): Promise<void> {
    this.#hosts.doubt();
    const values = await this.#openSecrets();
    for (const { ws } of this.#sockets.all()) sendControl(ws, { t: "secrets", values });
  }

  /** Nothing else happens meanwhile: neither does a host's next word overtake its hello, nor an older list a newer one. */
  #openSecrets(): Promise<Record<string, string>> {
    return this.ctx.blockConcurrencyWhile(() => this.#secrets().open());
  }

  #secrets(): SecretStore {
    return new SecretStore(this.ctx.storage.sql, this.env.SECRETS_KEY);
  }

  // ---- webhooks ---------------------------------------------------------------------------------------

  webhooks(caller: Caller): WebhookInfo[] {
    checkRight(this.ctx.id, caller, "workspace:admin");
    return this.#webhooks.list();
  }

  async makeWebhook(
    caller: Caller,
    workspace: string,
    order: WebhookOrder,
  ): Promise<MadeWebhook | "no key" | "too many"> {
    checkRight(this.ctx.id, caller, "workspace:admin");
    this.#store.create({ tenant: caller.tenant, workspace });
    const made = await this.#webhooks.make(order);
    await this.#deliver();
    return made;
  }

  /** False: there is none. */
  async deleteWebhook(caller: Caller, id: string): Promise<boolean> {
    checkRight(this.ctx.id, caller, "workspace:admin");
    const removed = this.#webhooks.remove(id);
    if (removed) await this.#deliver();
    return removed;
  }

  /** False: there is none. */
  testWebhook(caller: Caller, id: string): boolean {
    checkRight(this.ctx.id, caller, "workspace:admin");
    return this.#webhooks.ping(id);
  }

  /** Links that a webhook has spread end with it. */
  hasWebhook(id: string): boolean {
    return this.#webhooks.has(id);
  }

  /** What a session has to tell webhooks; returns what they want to hear of. */
  notify(notices: readonly HandedNotice[]): NoticeType[] {
    this.#webhooks.take(notices);
    return this.#webhooks.wanted();
  }

  /** A session without a process hears of it when it gets one. */
  #wantNotices(types: NoticeType[]): void {
    for (const { session } of this.#store.placements())
      this.#words.add(session, { kind: "notices", body: types });
    this.#deadlines.setUnlessSet("words", Date.now());
  }

  // ---- sockets ----------------------------------------------------------------------------------------

  /** A host's control socket, or someone who watches. */
  override async fetch(request: Request): Promise<Response> {
    const watch = WATCH_WORKSPACE.read(request.headers);
    if (watch) return this.#watch(watch);
    const caller = HOST.read(request.headers);
    if (!caller) return new Response("Not for a host", { status: 400 });
    checkRight(this.ctx.id, caller, "host");
    this.#store.create({ tenant: caller.tenant, workspace: caller.workspaces[0] as string });
    return new Response(null, { status: 101, webSocket: this.#sockets.accept(this.#tokens.admit(caller)) });
  }

  override async webSocketMessage(ws: WebSocket, text: string | ArrayBuffer): Promise<void> {
    if (this.#watchers.isWatcher(ws)) return this.#watchers.next(ws);
    const message = typeof text === "string" ? parseControl(text) : undefined;
    if (!message) return ws.close(CloseCode.badMessage, "unknown message");
    if (message.t === "version") {
      this.#note(ws, "host.refused", { linkVersion: message.version });
      return refuseVersion(ws, message.version);
    }
    if (message.t === "renew") return sendControl(ws, await this.#tokens.renew(ws, message.token));
    if (message.t === "hello") {
      const greeting = this.#hello(ws, message);
      this.#greetings.set(ws, greeting);
      return greeting.finally(() => this.#greetings.delete(ws));
    }
    // A hello takes its time if the name is taken; what the host says meanwhile is not lost.
    if (message.t !== "alive") await this.#greetings.get(ws);
    const name = this.#sockets.hostOf(ws);
    if (name === undefined) return;
    switch (message.t) {
      case "agent":
        this.#hosts.initialized(name, message.id, JSON.stringify(message.initialize));
        break;
      case "agent_failed":
        this.#hosts.failed(name, message.id, message.error);
        break;
      case "offers":
        this.#hosts.offer(name, message.agents);
        this.#placing.settle();
        break;
      case "workspace":
        this.#hosts.reportGit(name, message.git, Date.now());
        break;
      case "load": {
        const { t: _, ...load } = message;
        this.#hosts.reportLoad(name, load, Date.now());
        return this.#show();
      }
      case "draining":
        this.#departures.drains(name);
        break;
      case "alive":
        return this.#sockets.probed(ws, true);
    }
    this.#changed();
    this.#choices.wake();
    await this.#deliver();
  }

  override async webSocketClose(ws: WebSocket, code: number, reason: string): Promise<void> {
    answerClose(ws, code, reason);
    await this.#closed(ws, code, reason);
  }

  /** After this there is no close. */
  override webSocketError(ws: WebSocket): Promise<void> {
    return this.#closed(ws, CloseCode.lost, "socket broken");
  }

  async #closed(ws: WebSocket, code: number, reason: string): Promise<void> {
    if (this.#watchers.isWatcher(ws)) return this.#unwatched(ws);
    this.#sockets.probed(ws, false);
    const name = this.#forget(ws, reason);
    this.#tokens.remove(ws);
    if (name === undefined) return;
    this.#goes(name, Date.now(), code === CloseCode.normal);
    this.#choices.wake();
  }

  #watch({ caller, id }: WorkspaceWatchRequest): Response {
    checkRight(this.ctx.id, caller, "session:read");
    const holder = { class: "workspace", name: objectName(caller.tenant, id) } as const;
    const registration = registrationFor(caller, "watcher", holder);
    const response = this.#watchers.accept(id, registrationTags(registration));
    if (response.webSocket)
      register(this.ctx, this.env, registration, () => this.endSocket(registration.id, "token revoked"));
    return response;
  }

  #unwatched(ws: WebSocket): void {
    const registration = registrationOf(this.ctx, ws);
    if (registration) this.ctx.waitUntil(unregister(this.env, registration));
  }

  /** Its token is good no more. A host may come back with another one, and its processes with it. */
  #dismiss(ws: WebSocket, reason: string): void {
    const name = this.#watchers.isWatcher(ws) ? undefined : this.#forget(ws, reason);
    ws.close(CloseCode.unauthorized, reason);
    if (name === undefined) return;
    this.#goes(name, Date.now(), false);
    this.#choices.wake();
  }

  /** The token of a host or of a watcher was revoked. */
  endSocket(id: string, reason: string): void {
    for (const ws of registeredSockets(this.ctx, id)) this.#dismiss(ws, reason);
  }

  // ---- hosts ------------------------------------------------------------------------------------------

  async #hello(ws: WebSocket, hello: Hello): Promise<void> {
    const { name, instance, runs, software, agents, draining, root, capacity, maxAgents } = hello;
    if (!(await this.#sockets.claim(ws, hello))) {
      sendControl(ws, {
        t: "refused",
        reason: `Another host with the name "${name}" is connected; it keeps the name until it is gone`,
        why: "name",
      });
      return ws.close(CloseCode.nameInUse, "name in use");
    }
    // While the other one was asked, this one may have gone.
    if (this.#sockets.hostOf(ws) === undefined) return;
    this.#hosts.greet({
      name,
      instance,
      root,
      capacity,
      about: { ...software, linkVersion: hello.version, ...(maxAgents !== undefined && { maxAgents }) },
      state: draining ? "draining" : "connected",
      connectedAt: Date.now(),
    });
    const secrets = await this.#openSecrets();
    // Nobody can say what it lacks before it has the secrets; it tells once it has them.
    const hasSecrets = Object.keys(secrets).length > 0;
    this.#hosts.offer(name, hasSecrets ? agents.map((offer) => ({ ...offer, available: true })) : agents);
    this.#onDemand.connected(name);
    this.#hosts.prune(Date.now());
    sendControl(ws, { t: "welcome", ...this.#hostSettings() });
    if (hasSecrets || hello.secrets) sendControl(ws, { t: "secrets", values: secrets });
    this.#note(ws, "host.joined", { name });
    this.#sortOut(ws, name, instance, new Set(runs.map(({ sessionId }) => sessionId)));
    if (draining) this.#departures.tellToLeave(name);
    await this.#goOn();
  }

  /** What this host was asked to run, against what it does run. */
  #sortOut(ws: WebSocket, name: string, instance: string, running: ReadonlySet<string>): void {
    for (const { session, agent, wish, instance: asked } of this.#store.placedOn(name)) {
      if (running.has(session)) continue;
      if (asked === instance) {
        // The order may have been lost on the way; a host that has it will know.
        sendControl(ws, { t: "open", sessionId: session, agent, processRequest: wish });
        continue;
      }
      this.#departures.restarted(name, { session, wish });
    }
  }

  #goes(name: string, lastSeenAt: number, left: boolean): void {
    this.#departures.goes(name, lastSeenAt, left);
    this.#changed();
  }

  /** Hosts that have not said anything for long, not even to their socket, are asked; no answer means gone. */
  async #findSilent(): Promise<void> {
    await Promise.all(
      this.#sockets.all().map(async ({ ws, host }) => {
        const ponged = this.ctx.getWebSocketAutoResponseTimestamp(ws)?.getTime() ?? 0;
        const heard = Math.max(ponged, this.#hosts.get(host)?.lastSeenAt ?? 0);
        if (heard + LIMITS.hostSilentMs > Date.now()) return;
        if ((await this.#sockets.isAlive(ws)) || this.#sockets.hostOf(ws) === undefined) return;
        this.#forget(ws, "silent");
        ws.close(CloseCode.abandoned, "silent");
        this.#goes(host, heard, false);
      }),
    );
  }

  /** A session here is of the same tenant. */
  #session(id: string) {
    return sessionObject(this.env, this.#store.identity()?.tenant ?? "", id);
  }

  /** When a session in the container last had something to do; null while one has. */
  async #lastUse(): Promise<number | null> {
    const sessions = this.#store.placedOn(CONTAINER_HOST);
    const times = await Promise.all(sessions.map(({ session }) => this.#session(session).lastActiveAt()));
    return times.includes(null) ? null : Math.max(0, ...times.map((at) => at ?? 0));
  }

  // ---- telling ----------------------------------------------------------------------------------------

  /** Hosts are not as they were: whoever waits for that gets on, and all hear of it. */
  async #goOn(): Promise<void> {
    this.#placing.settle();
    this.#changed();
    this.#choices.wake();
    await this.#deliver();
  }

  /** Those who watch and the index hear of it soon, and once for many changes. */
  #changed(): void {
    this.#show();
    this.#deadlines.setUnlessSet("index", Date.now() + LIMITS.indexDelayMs);
    this.#listen();
  }

  #show(): void {
    if (this.#watchers.any) this.#deadlines.setUnlessSet("show", Date.now() + LIMITS.viewDelayMs);
  }

  /** Whether hosts are there matters only while sessions depend on them: otherwise nothing wakes this object. */
  #listen(): void {
    if (this.#store.counts().size > 0 && this.#sockets.all().length > 0)
      this.#deadlines.setUnlessSet("silence", Date.now() + LIMITS.hostSilentMs);
  }

  async #deliver(): Promise<void> {
    if (await this.#words.deliver()) this.#deadlines.clear("words");
    else this.#deadlines.set("words", Date.now() + LIMITS.hostStatusRetryMs);
  }

  async #writeIndex(): Promise<void> {
    const identity = this.#store.identity();
    if (!identity) return;
    const row = indexRow(identity, this.#view(identity.workspace));
    if (JSON.stringify(row) === JSON.stringify(this.#store.get<WorkspaceRow>("indexed"))) return;
    try {
      await writeWorkspace(this.env.INDEX, row, Date.now());
      this.#store.set("indexed", row);
    } catch (error) {
      console.error("index write failed", { ...identity, error: String(error) });
      this.#deadlines.setUnlessSet("index", Date.now() + LIMITS.indexRetryMs);
    }
  }

  override async alarm(): Promise<void> {
    if (!this.#store.exists) return;
    await this.#deadlines.run(Date.now(), {
      grace: async () => {
        this.#departures.giveUpAbsent();
        await this.#goOn();
      },
      silence: async () => {
        await this.#findSilent();
        this.#listen();
        await this.#deliver();
      },
      words: () => this.#deliver(),
      show: () => this.#watchers.feed(),
      container: async () => {
        await this.#onDemand.due();
        await this.#goOn();
      },
      "container-token": () => this.#renewToken(),
      index: () => this.#writeIndex(),
      webhooks: () => this.#webhooks.deliver(),
      "host-token": () => this.#tokens.check(Date.now()),
    });
  }

  async #renewToken(): Promise<void> {
    const token = await this.#onDemand.token();
    const ws = this.#sockets.of(CONTAINER_HOST)?.ws;
    if (ws && token !== undefined) sendControl(ws, { t: "token", token });
  }

  /** From now on the socket speaks for nobody. Returns for whom it did. */
  #forget(ws: WebSocket, reason: string): string | undefined {
    const name = this.#sockets.silence(ws);
    if (name !== undefined) this.#note(ws, "host.left", { name, reason });
    return name;
  }

  #note(ws: WebSocket, kind: AuditKind, detail: NonNullable<Act["detail"]>): void {
    const caller = this.#tokens.callerOf(ws);
    if (!caller) return;
    const [workspace] = caller.workspaces;
    this.ctx.waitUntil(audit(this.env, caller.tenant, { kind, subject: caller.subject, workspace, detail }));
  }
}

function refuseVersion(ws: WebSocket, version: number): void {
  const reason = `This gateway speaks link version ${LINK_VERSION}, the host ${version}`;
  sendControl(ws, { t: "refused", reason, why: "version" });
  ws.close(CloseCode.linkVersion, "link version");
}
