import { DurableObject } from "cloudflare:workers";
import { CONTAINER_HOST } from "../container/starter.ts";
import { objectName, sessionObject } from "../objects.ts";
import type { Caller } from "../protocol/caller.ts";
import { answerClose, UNAUTHORIZED } from "../protocol/close.ts";
import { LIMITS } from "../protocol/limits.ts";
import {
  type GatewayControl,
  type GitState,
  type HostSettings,
  LINK_VERSION,
  SUPERSEDED,
} from "../protocol/link.ts";
import type { PermissionPolicy } from "../protocol/policy.ts";
import { Deadlines } from "../session/deadlines.ts";
import { type Act, type AuditKind, audit } from "../tenant/audit.ts";
import { enter, leave, passFor, passOf, passTags } from "../tenant/pass.ts";
import { type Agent, agentsOf } from "./agents.ts";
import { type Hello, parseControl } from "./control.ts";
import { HostPasses } from "./host-passes.ts";
import { Hosts } from "./hosts.ts";
import { type IndexRow, indexRow, writeIndex } from "./index-row.ts";
import { availableIds, whyNot } from "./offers.ts";
import { OnDemandHost } from "./on-demand-host.ts";
import { type Candidate, decide, isOverdue, wouldHelp } from "./placement.ts";
import { checkRight } from "./rights.ts";
import { type SecretInfo, SecretStore } from "./secrets.ts";
import type { SettingsChange } from "./settings.ts";
import { type Identity, type Placement, Store } from "./store.ts";
import { viewOf, type WorkspaceView } from "./view.ts";
import { Watchers } from "./watchers.ts";
import { Words } from "./words.ts";

export type { WorkspaceView } from "./view.ts";

/** What a connection needs to answer `initialize`: the agent it gets, and what that agent said, as JSON. */
export type AgentChoice =
  | { agent: string; initialize: string | null }
  /** It cannot be had; these can. */
  | { refused: string; agents: string[] };

/** A session asks for an agent process. `wish` is its own number for it, higher each time. */
export type PlaceOrder = Identity & { sessionId: string; agent: string; wish: number; home: string | null };

/** Secrets of one workspace: all of them travel in one message. */
const SECRETS_MAX = 100;

/** Someone wants to see the workspace of that id as it changes. */
export type WatchRequest = { caller: Caller; id: string };

/** One workspace: the hosts that serve it, the agents they offer, and which host runs which session. */
export class WorkspaceState extends DurableObject<Env> {
  readonly #store: Store;
  readonly #hosts: Hosts;
  readonly #words: Words;
  readonly #watchers: Watchers;
  readonly #passes: HostPasses;
  readonly #deadlines: Deadlines<
    "grace" | "silence" | "words" | "show" | "index" | "host-token" | "container" | "container-token"
  >;
  readonly #onDemand: OnDemandHost;
  /** Connections that wait for an agent's first word. They are calls in progress: nothing to restore. */
  #waiting: (() => void)[] = [];
  /** Hellos that are being dealt with, and hosts that have been asked whether they are there; likewise. */
  readonly #greetings = new Map<WebSocket, Promise<void>>();
  readonly #probes = new Map<WebSocket, (alive: boolean) => void>();

  constructor(ctx: DurableObjectState, env: Env) {
    super(ctx, env);
    const { sql } = ctx.storage;
    this.#store = new Store(sql);
    this.#hosts = new Hosts(sql, this.#store);
    this.#words = new Words(sql, (session) => this.#session(session));
    this.#watchers = new Watchers(ctx, (id) => JSON.stringify(this.#view(id)));
    this.#deadlines = new Deadlines(ctx.storage);
    this.#passes = new HostPasses(ctx, env, this.#deadlines, (ws, reason) => this.#dismiss(ws, reason));
    this.#onDemand = new OnDemandHost(ctx, env, this.#store, this.#deadlines, {
      lastUse: () => this.#lastUse(),
      isExpected: () => {
        const host = this.#hosts.get(CONTAINER_HOST);
        return host !== undefined && !isOverdue(host, this.#store.settings().hostGraceMs, Date.now());
      },
      ended: (life, reason) => this.hostEnded(life, reason),
      leaves: () => {
        this.#hosts.drains(CONTAINER_HOST);
        this.#tellToLeave(CONTAINER_HOST);
      },
    });
    ctx.setWebSocketAutoResponse(new WebSocketRequestResponsePair("ping", "pong"));
    // After a crash nobody has been told that the sockets are gone.
    for (const { name } of this.#hosts.present())
      if (!this.#socketOf(name)) this.#goes(name, Date.now(), false);
  }

  // ---- for sessions and connections -------------------------------------------------------------------

  /** Puts a session on a host; with none that can have it, it waits. `refused` says why there will be none. */
  place(order: PlaceOrder): { refused: string | null; policy: PermissionPolicy } {
    const { sessionId: session, agent, wish, home } = order;
    this.#store.create(order);
    const { policy } = this.#store.settings();
    const refused = agent === "" ? undefined : whyNot(this.#agents(), agent);
    if (refused !== undefined) return { refused, policy };
    const before = this.#store.placement(session);
    if (!before || before.wish < wish) this.#store.want({ session, agent, wish, home });
    this.#settle();
    this.#changed();
    return { refused: null, policy };
  }

  /** The session has no process any more and wants none. */
  release(sessionId: string, wish: number): void {
    if (!this.#store.exists) return;
    if (this.#store.placement(sessionId)?.host === CONTAINER_HOST) this.#onDemand.used();
    this.#store.release(sessionId, wish);
    this.#hosts.prune(Date.now());
    // Its host may have room for one that waits.
    this.#settle();
    this.#changed();
  }

  /** What a session has been waiting for, in words for people. */
  explain(sessionId: string): string | null {
    const placement = this.#store.placement(sessionId);
    if (!placement) return null;
    const { host } = placement;
    if (host !== null) return `host "${host}", which was asked to start the agent`;
    const candidates = this.#hosts.candidates();
    const wish = this.#wishOf(placement);
    const decision = decide(wish, candidates, this.#store.settings(), Date.now());
    if ("host" in decision) return null;
    return this.#needsContainer(wish, candidates) ? this.#onDemand.describe() : decision.waitsFor;
  }

  /** The state of the files a session works on. */
  gitFor(host: string | null): GitState | null {
    return (host === null ? undefined : this.#hosts.get(host)?.git) ?? null;
  }

  /** The agent a connection asked for, or the default; waits a while for one that has not said yet what it can do. */
  async choose(caller: Caller, wanted: string | null): Promise<AgentChoice> {
    checkRight(this.ctx.id, caller, "session:read", "session:prompt");
    const deadline = Date.now() + LIMITS.agentStartMs;
    for (let warmed = false; ; ) {
      const agents = this.#agents();
      const agent = agents.find((a) => (wanted === null ? a.default : a.id === wanted));
      const refused = whyNot(agents, agent?.id ?? wanted ?? "");
      if (refused !== undefined && (agent || wanted !== null))
        return { refused, agents: availableIds(agents) };
      const late = Date.now() >= deadline;
      if (!agent && (late || !this.#onDemand.isComing))
        return { agent: wanted ?? this.#store.settings().defaultAgent ?? "", initialize: null };
      if (!agent) {
        this.#onDemand.need();
        await this.#news(deadline);
        continue;
      }
      const [host] = agent.startable;
      const ws = host === undefined ? undefined : this.#socketOf(host);
      // A session is likely to follow. Hosts keep their own default agent warm unasked.
      const kept = agent.default && agent.initialize !== null;
      if (ws && !warmed && !kept) send(ws, { t: "warm", agent: agent.id });
      warmed = true;
      if (agent.initialize || agent.error || !ws || late)
        return { agent: agent.id, initialize: agent.initialize };
      await this.#news(deadline);
    }
  }

  /** Resolves when a host has something to say, or when it is too late. */
  #news(deadline: number): Promise<void> {
    return new Promise((resolve) => {
      const timer = setTimeout(resolve, deadline - Date.now());
      this.#waiting.push(() => {
        clearTimeout(timer);
        resolve();
      });
    });
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
      this.#giveUpAbsent();
    }
    if (change.container !== undefined) this.#onDemand.reconsider();
    if (change.clientIo !== undefined)
      for (const { ws } of this.#sockets()) send(ws, { t: "settings", ...this.#hostSettings() });
    this.#settle();
    this.#changed();
    this.#wake();
    await this.#deliver();
    return this.#view(workspace);
  }

  #view(id: string): WorkspaceView {
    return viewOf(id, this.#store, this.#hosts, this.#onDemand.life);
  }

  // ---- for containers ---------------------------------------------------------------------------------

  /** The container has ended, or could not be started. */
  async hostEnded(life: number, reason: string): Promise<void> {
    if (!this.#store.exists || !this.#onDemand.ended(life, reason)) return;
    const ws = this.#socketOf(CONTAINER_HOST);
    // If it is there after all, it dials again and is greeted anew.
    if (ws) this.#forget(ws, "ended");
    ws?.close(4408, "ended");
    this.#hosts.ended(CONTAINER_HOST, Date.now());
    this.#giveUpAbsent();
    this.#settle();
    this.#changed();
    this.#wake();
    await this.#deliver();
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
    for (const { ws } of this.#sockets()) send(ws, { t: "secrets", values });
  }

  /** Nothing else happens meanwhile: neither does a host's next word overtake its hello, nor an older list a newer one. */
  #openSecrets(): Promise<Record<string, string>> {
    return this.ctx.blockConcurrencyWhile(() => this.#secrets().open());
  }

  #secrets(): SecretStore {
    return new SecretStore(this.ctx.storage.sql, this.env.SECRETS_KEY);
  }

  // ---- sockets ----------------------------------------------------------------------------------------

  /** A host's control socket, or someone who watches. */
  override async fetch(request: Request): Promise<Response> {
    const watch = request.headers.get("X-Acp-Watch");
    if (watch !== null) return this.#watch(JSON.parse(watch) as WatchRequest);
    const caller = JSON.parse(request.headers.get("X-Acp-Host") ?? "") as Caller;
    checkRight(this.ctx.id, caller, "host");
    this.#store.create({ tenant: caller.tenant, workspace: caller.workspaces[0] as string });
    const { 0: client, 1: server } = new WebSocketPair();
    this.ctx.acceptWebSocket(server, [HOST, ...this.#passes.admit(caller)]);
    return new Response(null, { status: 101, webSocket: client });
  }

  override async webSocketMessage(ws: WebSocket, text: string | ArrayBuffer): Promise<void> {
    if (this.#watchers.isWatcher(ws)) return this.#watchers.next(ws);
    const message = typeof text === "string" ? parseControl(text) : undefined;
    if (!message) return ws.close(4400, "unknown message");
    if (message.t === "version") {
      this.#note(ws, "host.refused", { linkVersion: message.version });
      return refuseVersion(ws, message.version);
    }
    if (message.t === "renew") return send(ws, await this.#passes.renew(ws, message.token));
    if (message.t === "hello") {
      const greeting = this.#hello(ws, message);
      this.#greetings.set(ws, greeting);
      return greeting.finally(() => this.#greetings.delete(ws));
    }
    // A hello takes its time if the name is taken; what the host says meanwhile is not lost.
    if (message.t !== "alive") await this.#greetings.get(ws);
    const name = hostOf(ws);
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
        this.#settle();
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
        this.#hosts.drains(name);
        this.#tellToLeave(name);
        break;
      case "alive":
        return this.#probes.get(ws)?.(true);
    }
    this.#changed();
    this.#wake();
    await this.#deliver();
  }

  override async webSocketClose(ws: WebSocket, code: number, reason: string): Promise<void> {
    answerClose(ws, code, reason);
    await this.#closed(ws, code, reason);
  }

  /** After this there is no close. */
  override webSocketError(ws: WebSocket): Promise<void> {
    return this.#closed(ws, 1006, "socket broken");
  }

  async #closed(ws: WebSocket, code: number, reason: string): Promise<void> {
    if (this.#watchers.isWatcher(ws)) return this.#unwatched(ws);
    this.#probes.get(ws)?.(false);
    const name = this.#forget(ws, reason);
    this.#passes.left(ws);
    if (name === undefined) return;
    this.#goes(name, Date.now(), code === GOODBYE);
    this.#wake();
  }

  #watch({ caller, id }: WatchRequest): Response {
    checkRight(this.ctx.id, caller, "session:read");
    const holder = { class: "workspace", name: objectName(caller.tenant, id) } as const;
    const pass = passFor(caller, "watcher", holder);
    const response = this.#watchers.accept(id, passTags(pass));
    if (response.webSocket)
      this.ctx.waitUntil(
        enter(this.env, pass).then((isIn) => {
          if (!isIn) this.endSocket(pass.id, "token revoked");
        }),
      );
    return response;
  }

  #unwatched(ws: WebSocket): void {
    const pass = passOf(this.ctx, ws);
    if (pass) this.ctx.waitUntil(leave(this.env, pass));
  }

  /** Its token is good no more. A host may come back with another one, and its processes with it. */
  #dismiss(ws: WebSocket, reason: string): void {
    const name = this.#watchers.isWatcher(ws) ? undefined : this.#forget(ws, reason);
    ws.close(UNAUTHORIZED, reason);
    if (name === undefined) return;
    this.#goes(name, Date.now(), false);
    this.#wake();
  }

  /** The token of a host or of a watcher was revoked. */
  endSocket(id: string, reason: string): void {
    for (const ws of this.ctx.getWebSockets(`id:${id}`)) this.#dismiss(ws, reason);
  }

  // ---- hosts ------------------------------------------------------------------------------------------

  async #hello(ws: WebSocket, hello: Hello): Promise<void> {
    const { name, instance, runs, software, agents, draining, root, capacity, maxAgents } = hello;
    if (!(await this.#claim(ws, hello))) {
      send(ws, {
        t: "refused",
        reason: `Another host with the name "${name}" is connected; it keeps the name until it is gone`,
        why: "name",
      });
      return ws.close(4410, "name in use");
    }
    // While the other one was asked, this one may have gone.
    if (hostOf(ws) === undefined) return;
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
    send(ws, { t: "welcome", ...this.#hostSettings() });
    if (hasSecrets || hello.secrets) send(ws, { t: "secrets", values: secrets });
    this.#note(ws, "host.joined", { name });
    this.#sortOut(ws, name, instance, new Set(runs.map(({ sessionId }) => sessionId)));
    if (draining) this.#tellToLeave(name);
    this.#settle();
    this.#changed();
    this.#wake();
    await this.#deliver();
  }

  /**
   * Two hosts of one name would share each other's sessions. A host that comes back takes over its own old
   * socket; another one gets the name only if the one that has it does not answer.
   */
  async #claim(ws: WebSocket, { name, instance }: Hello): Promise<boolean> {
    for (;;) {
      const holder = this.#socketOf(name);
      if (!holder || holder === ws) {
        if (ws.readyState === WebSocket.OPEN)
          ws.serializeAttachment({ host: name, instance } satisfies Attachment);
        return true;
      }
      const same = attachmentOf(holder)?.instance === instance;
      if (!same && (await this.#isAlive(holder))) return false;
      this.#forget(holder, same ? "replaced" : "superseded");
      holder.close(same ? 4408 : SUPERSEDED, same ? "replaced" : "superseded");
    }
  }

  #isAlive(ws: WebSocket): Promise<boolean> {
    return new Promise((resolve) => {
      const before = this.#probes.get(ws);
      const settle = (alive: boolean) => {
        clearTimeout(timer);
        this.#probes.delete(ws);
        before?.(alive);
        resolve(alive);
      };
      // Not at rest: the message that made us ask is still being dealt with.
      const timer = setTimeout(() => settle(false), LIMITS.probeMs);
      this.#probes.set(ws, settle);
      send(ws, { t: "probe" });
    });
  }

  /** What this host was asked to run, against what it does run. */
  #sortOut(ws: WebSocket, name: string, instance: string, running: ReadonlySet<string>): void {
    for (const { session, agent, wish, instance: asked } of this.#store.placedOn(name)) {
      if (running.has(session)) continue;
      if (asked === instance) {
        // The order may have been lost on the way; a host that has it will know.
        send(ws, { t: "open", sessionId: session, agent, wish });
        continue;
      }
      this.#store.release(session, wish);
      const reason = `host ${name} was restarted`;
      this.#words.add(session, { kind: "lost", body: { host: name, wish, reason } });
    }
  }

  #tellToLeave(host: string): void {
    for (const { session, wish } of this.#store.placedOn(host)) {
      const reason = `host ${host} is being drained`;
      this.#words.add(session, { kind: "drain", body: { host, wish, reason } });
    }
  }

  /** Its sessions stay where they are for now: it may come back, with the same processes or with news of them. */
  #goes(name: string, lastSeenAt: number, left: boolean): void {
    this.#hosts.goes(name, lastSeenAt, left);
    this.#giveUpAbsent();
    this.#changed();
  }

  /** Sessions whose host has been away for too long hear of it: they are to go elsewhere, or they wait. */
  #giveUpAbsent(): void {
    const { sharedFiles, hostGraceMs } = this.#store.settings();
    const now = Date.now();
    const untold = this.#hosts.all().filter(({ state, told }) => state === "gone" && !told);
    for (const host of untold.filter((one) => isOverdue(one, hostGraceMs, now))) {
      this.#hosts.told(host.name, true);
      const reason = `host ${host.name} is gone since ${new Date(host.lastSeenAt).toISOString()}`;
      for (const { session, wish } of this.#store.placedOn(host.name)) {
        const body = { host: host.name, wish, reason };
        // Of a host that has left nothing can come back but its name.
        const lost = sharedFiles || host.left;
        if (lost) this.#store.release(session, wish);
        this.#words.add(session, { kind: lost ? "lost" : "absent", body });
        this.#deadlines.setUnlessSet("words", now);
      }
    }
    const next = untold.map(({ lastSeenAt }) => lastSeenAt + hostGraceMs).filter((at) => at > now);
    if (next.length > 0) this.#deadlines.set("grace", Math.min(...next));
  }

  /** Hosts that have not said anything for long, not even to their socket, are asked; no answer means gone. */
  async #findSilent(): Promise<void> {
    await Promise.all(
      this.#sockets().map(async ({ ws, host }) => {
        const ponged = this.ctx.getWebSocketAutoResponseTimestamp(ws)?.getTime() ?? 0;
        const heard = Math.max(ponged, this.#hosts.get(host)?.lastSeenAt ?? 0);
        if (heard + LIMITS.hostSilentMs > Date.now()) return;
        if ((await this.#isAlive(ws)) || hostOf(ws) === undefined) return;
        this.#forget(ws, "silent");
        ws.close(4408, "silent");
        this.#goes(host, heard, false);
      }),
    );
  }

  // ---- placing ----------------------------------------------------------------------------------------

  /** Everyone who waits gets a place, if there is one; for whom a container would help, it is started. */
  #settle(): void {
    const candidates = this.#hosts.candidates();
    const settings = this.#store.settings();
    for (const placement of this.#store.waiting()) {
      const { session, agent, wish } = this.#wishOf(placement);
      const decision = decide({ ...placement, agent }, candidates, settings, Date.now());
      const ws = "host" in decision ? this.#socketOf(decision.host) : undefined;
      const { host, instance } = (ws && attachmentOf(ws)) ?? {};
      if (!ws || host === undefined || instance === undefined) {
        if (this.#needsContainer({ ...placement, agent }, candidates)) this.#onDemand.need();
        continue;
      }
      this.#store.assign(session, agent, host, instance);
      for (const candidate of candidates) if (candidate.name === host) candidate.placed += 1;
      send(ws, { t: "open", sessionId: session, agent, wish });
    }
  }

  /** Who opened a session before any agent was known gets the default one. */
  #wishOf(placement: Placement): Placement {
    if (placement.agent !== "") return placement;
    const agents = this.#agents();
    const agent = agents.find((one) => one.default) ?? agents.find((one) => one.available);
    return agent ? { ...placement, agent: agent.id } : placement;
  }

  #needsContainer(wish: Placement, candidates: readonly Candidate[]): boolean {
    if (!this.#onDemand.isConfigured) return false;
    return wouldHelp(CONTAINER_HOST, wish, candidates, this.#store.settings(), Date.now());
  }

  /** A session here is of the same tenant. */
  #session(id: string) {
    return sessionObject(this.env, this.#store.identity()?.tenant ?? "", id);
  }

  /** When a session in the container last had something to do; null while one has. */
  async #lastUse(): Promise<number | null> {
    const sessions = this.#store.placedOn(CONTAINER_HOST);
    const times = await Promise.all(sessions.map(({ session }) => this.#session(session).lastActive()));
    return times.includes(null) ? null : Math.max(0, ...times.map((at) => at ?? 0));
  }

  #agents(): Agent[] {
    return agentsOf(this.#hosts.all(), this.#hosts.offers(), this.#store.settings(), Date.now());
  }

  // ---- telling ----------------------------------------------------------------------------------------

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
    if (this.#store.counts().size > 0 && this.#sockets().length > 0)
      this.#deadlines.setUnlessSet("silence", Date.now() + LIMITS.hostSilentMs);
  }

  async #deliver(): Promise<void> {
    if (await this.#words.deliver()) this.#deadlines.clear("words");
    else this.#deadlines.set("words", Date.now() + LIMITS.wordRetryMs);
  }

  async #writeIndex(): Promise<void> {
    const identity = this.#store.identity();
    if (!identity) return;
    const row = indexRow(identity, this.#view(identity.workspace));
    if (JSON.stringify(row) === JSON.stringify(this.#store.get<IndexRow>("indexed"))) return;
    try {
      await writeIndex(this.env.INDEX, row, Date.now());
      this.#store.set("indexed", row);
    } catch (error) {
      console.error("index write failed", { ...identity, error: String(error) });
      this.#deadlines.setUnlessSet("index", Date.now() + LIMITS.indexRetryMs);
    }
  }

  override async alarm(): Promise<void> {
    if (!this.#store.exists) return;
    for (const name of this.#deadlines.due(Date.now())) {
      switch (name) {
        case "grace":
          this.#giveUpAbsent();
          this.#settle();
          this.#changed();
          await this.#deliver();
          break;
        case "silence":
          await this.#findSilent();
          this.#listen();
          await this.#deliver();
          break;
        case "words":
          await this.#deliver();
          break;
        case "show":
          this.#watchers.feed();
          break;
        case "container":
          await this.#onDemand.due();
          this.#settle();
          this.#changed();
          await this.#deliver();
          break;
        case "container-token":
          await this.#renewToken();
          break;
        case "index":
          await this.#writeIndex();
          break;
        case "host-token":
          this.#passes.check(Date.now());
      }
    }
  }

  async #renewToken(): Promise<void> {
    const token = await this.#onDemand.token();
    const ws = this.#socketOf(CONTAINER_HOST);
    if (ws && token !== undefined) send(ws, { t: "token", token });
  }

  #wake(): void {
    for (const resolve of this.#waiting.splice(0)) resolve();
  }

  /** From now on the socket speaks for nobody. Returns for whom it did. */
  #forget(ws: WebSocket, reason: string): string | undefined {
    const name = hostOf(ws);
    if (name !== undefined) this.#note(ws, "host.left", { name, reason });
    ws.serializeAttachment(null);
    return name;
  }

  #note(ws: WebSocket, kind: AuditKind, detail: NonNullable<Act["detail"]>): void {
    const caller = this.#passes.callerOf(ws);
    if (!caller) return;
    const [workspace] = caller.workspaces;
    this.ctx.waitUntil(audit(this.env, caller.tenant, { kind, subject: caller.subject, workspace, detail }));
  }

  /** Control sockets that have said hello. */
  #sockets(): { ws: WebSocket; host: string }[] {
    return this.ctx.getWebSockets(HOST).flatMap((ws) => {
      const host = hostOf(ws);
      return host !== undefined && ws.readyState === WebSocket.OPEN ? [{ ws, host }] : [];
    });
  }

  #socketOf(name: string): WebSocket | undefined {
    return this.#sockets().find(({ host }) => host === name)?.ws;
  }
}

/** How a host closes its socket when it ends, after all its processes have. */
const GOODBYE = 1000;

/** Tells a host's socket from those of watchers. */
const HOST = "host";

/** What the object remembers of a control socket: who it speaks for. */
type Attachment = { host: string; instance: string };

function attachmentOf(ws: WebSocket): Attachment | undefined {
  return (ws.deserializeAttachment() as Attachment | null) ?? undefined;
}

function hostOf(ws: WebSocket): string | undefined {
  return attachmentOf(ws)?.host;
}

function refuseVersion(ws: WebSocket, version: number): void {
  const reason = `This gateway speaks link version ${LINK_VERSION}, the host ${version}`;
  send(ws, { t: "refused", reason, why: "version" });
  ws.close(4426, "link version");
}

function send(ws: WebSocket, message: GatewayControl): void {
  ws.send(JSON.stringify(message));
}
