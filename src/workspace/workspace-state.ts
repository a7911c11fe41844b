import { DurableObject } from "cloudflare:workers";
import { newId } from "../durable/new-id.ts";
import { objectName } from "../durable/objects.ts";
import { registrationFor, registrationOf, registrationTags } from "../durable/socket-registration.ts";
import { socketResponse } from "../durable/socket-response.ts";
import { type Caller, roleOf } from "../protocol/caller.ts";
import { clipMessage } from "../protocol/clipped-text.ts";
import { answerClose, CloseCode } from "../protocol/close-codes.ts";
import type { GitState } from "../protocol/host-wire.ts";
import { HOST, WATCH_WORKSPACE, type WorkspaceWatchRequest } from "../protocol/internal-headers.ts";
import { readLimits } from "../protocol/limits.ts";
import { makerOf } from "../protocol/maker.ts";
import type { Result } from "../protocol/refusal.ts";
import type { ReindexProgress } from "../protocol/reindex.ts";
import type { CreatedWebhook, SecretInfo, WebhookInfo, WorkspaceView } from "../protocol/rest.ts";
import type { PlacementAnswer, PlacementRequest, ProcessPlacement, SelectedAgent } from "../protocol/rpc.ts";
import type { HostTokenName } from "../protocol/subject-rpc.ts";
import type { HandedMessage, WebhookMessageType } from "../protocol/webhook-messages.ts";
import type { SettingsChange } from "../protocol/workspace-settings.ts";
import { checkAdministrator, checkRight } from "./rights.ts";
import type { WorkspaceIdentity } from "./store.ts";
import { isWatcher } from "./view-watchers.ts";
import type { WebhookOrder } from "./webhooks/webhooks.ts";
import { Workspace } from "./workspace.ts";

/** The RPC surface of a workspace: each method authorises its caller and makes one call. */
export class WorkspaceState extends DurableObject<Env> {
  readonly #workspace: Workspace;

  constructor(ctx: DurableObjectState, env: Env) {
    super(ctx, env);
    this.#workspace = new Workspace(ctx, env, readLimits(env.LIMITS));
    ctx.setWebSocketAutoResponse(new WebSocketRequestResponsePair("ping", "pong"));
  }

  // ---- for sessions -----------------------------------------------------------------------------------

  place(request: PlacementRequest): PlacementAnswer {
    return this.#workspace.place(request);
  }

  release(sessionId: string, processRequest: number, about: { isDeleted?: true } = {}): void {
    if (about.isDeleted) this.#workspace.sessions.remove(sessionId);
    this.#workspace.release(sessionId, processRequest);
  }

  /** Takes up a session that was opened, imported or copied into the workspace. */
  enroll(identity: WorkspaceIdentity, sessionId: string): void {
    this.#workspace.enroll(identity, sessionId);
  }

  /** For a session whose host is silent while somebody waits for it. */
  async checkHosts(): Promise<void> {
    await this.#workspace.checkHosts();
  }

  /** Where a process of a session is placed; null if it waits for a host, or if another request took its place. */
  placementOf(sessionId: string, processRequest: number): ProcessPlacement | null {
    return this.#workspace.placementOf(sessionId, processRequest);
  }

  /** Tells people what the session waits for; null if it waits for nothing. */
  explain(sessionId: string): string | null {
    return this.#workspace.explain(sessionId);
  }

  /** The git state of the files that a session works on; `host` is the session's home. */
  gitFor(host: string | null): GitState | null {
    return this.#workspace.gitOf(host);
  }

  /** Takes messages for webhooks. Returns the types of messages that the webhooks want. */
  notify(messages: readonly HandedMessage[]): WebhookMessageType[] {
    return this.#workspace.takeWebhookMessages(messages);
  }

  // ---- for connections and people ---------------------------------------------------------------------

  /** The wanted agent, or the default agent. Waits a while for the agent to report its capabilities. */
  selectAgent(caller: Caller, wanted: string | null): Promise<Result<SelectedAgent>> {
    checkRight(this.ctx.id, caller, "session:read", "session:prompt");
    return this.#workspace.agents.select(wanted, { mayStart: roleOf(caller) === "controller" });
  }

  /** A session reports the modes of its agent, which differ from those that it was told with its placement. */
  reportModes(agent: string, modes: readonly string[]): void {
    this.#workspace.modes.set(agent, modes);
  }

  view(caller: Caller, id: string): WorkspaceView {
    checkRight(this.ctx.id, caller, "session:read", "session:prompt");
    return this.#workspace.view(id);
  }

  async update(caller: Caller, workspace: string, change: SettingsChange): Promise<Result<WorkspaceView>> {
    checkRight(this.ctx.id, caller, "workspace:admin");
    return this.#workspace.update({ tenant: caller.tenant, workspace }, change);
  }

  async secrets(caller: Caller): Promise<SecretInfo[]> {
    checkRight(this.ctx.id, caller, "workspace:admin");
    return this.#workspace.secrets.list();
  }

  async putSecret(
    caller: Caller,
    workspace: string,
    { name, value }: { name: string; value: string },
  ): Promise<Result<undefined>> {
    checkRight(this.ctx.id, caller, "workspace:admin");
    return this.#workspace.secrets.put({ tenant: caller.tenant, workspace }, name, value);
  }

  async deleteSecret(caller: Caller, name: string): Promise<Result<undefined>> {
    checkRight(this.ctx.id, caller, "workspace:admin");
    return this.#workspace.secrets.remove(name);
  }

  async webhooks(caller: Caller): Promise<WebhookInfo[]> {
    checkRight(this.ctx.id, caller, "workspace:admin");
    await this.#workspace.webhooks.renewSecrets();
    return this.#workspace.webhooks.list();
  }

  async createWebhook(
    caller: Caller,
    workspace: string,
    order: WebhookOrder,
  ): Promise<Result<CreatedWebhook>> {
    checkRight(this.ctx.id, caller, "workspace:admin");
    return this.#workspace.createWebhook({ tenant: caller.tenant, workspace }, order, makerOf(caller));
  }

  /** Makes the caller the maker of a webhook. A webhook whose maker is revoked goes on. */
  adoptWebhook(caller: Caller, id: string): Promise<Result<WebhookInfo>> {
    checkRight(this.ctx.id, caller, "workspace:admin");
    return this.#workspace.webhooks.adopt(id, makerOf(caller));
  }

  async deleteWebhook(caller: Caller, id: string): Promise<Result<undefined>> {
    checkRight(this.ctx.id, caller, "workspace:admin");
    return this.#workspace.deleteWebhook(id);
  }

  testWebhook(caller: Caller, id: string): Result<undefined> {
    checkRight(this.ctx.id, caller, "workspace:admin");
    return this.#workspace.webhooks.ping(id);
  }

  /** The answer links in a webhook's messages are valid as long as the webhook exists and does not pause. */
  isWebhookActive(id: string): boolean {
    return this.#workspace.webhooks.isActive(id);
  }

  /** For the tenant: a revocation of a maker was made or has ended. Returns the ids of the webhooks. */
  async checkWebhookMakers(): Promise<string[]> {
    const ids = await this.#workspace.webhooks.checkMakers();
    this.#workspace.webhooks.deliver();
    return ids;
  }

  // ---- the index --------------------------------------------------------------------------------------

  /** Writes the index of the workspace anew, in steps that follow. Null: no such workspace. */
  startReindex(caller: Caller, workspace: string): Promise<ReindexProgress | null> {
    checkAdministrator(this.ctx.id, caller);
    return this.#workspace.reindex.start({ tenant: caller.tenant, workspace }, newId("rix"));
  }

  reindexProgress(caller: Caller): ReindexProgress {
    checkAdministrator(this.ctx.id, caller);
    return this.#workspace.reindex.progress;
  }

  /** For the tenant: begins unless this order was given before, and says how far it is. */
  reindexFor(identity: WorkspaceIdentity, order: string): Promise<ReindexProgress | null> {
    return this.#workspace.reindex.start(identity, order);
  }

  // ---- for containers ---------------------------------------------------------------------------------

  /** The container of that start has ended, or could not be started. */
  async hostEnded(startNumber: number, reason: string): Promise<void> {
    await this.#workspace.containerEnded(startNumber, reason);
  }

  isHostWanted(startNumber: number): boolean {
    return this.#workspace.isContainerWanted(startNumber);
  }

  // ---- sockets ----------------------------------------------------------------------------------------

  /** Accepts the control socket of a host, or the socket of a watcher. */
  override async fetch(request: Request): Promise<Response> {
    const watch = WATCH_WORKSPACE.read(request.headers);
    if (watch) return this.#watch(watch);
    const caller = HOST.read(request.headers);
    if (!caller) return new Response("Not for a host", { status: 400 });
    checkRight(this.ctx.id, caller, "host");
    return socketResponse(await this.#workspace.hosts.accept(caller));
  }

  async #watch({ caller, id, socket }: WorkspaceWatchRequest): Promise<Response> {
    checkRight(this.ctx.id, caller, "session:read");
    const holder = { class: "workspace", name: objectName(caller.tenant, id) } as const;
    const registration = registrationFor(caller, "watcher", holder, socket);
    const { registrar, watchers } = this.#workspace;
    const entered = await registrar.enter(registration);
    if (!entered.ok) return socketResponse(entered);
    const result = watchers.accept(id, registrationTags(registration));
    if (!result.ok) await registrar.leave(socket);
    return socketResponse(result);
  }

  override async webSocketMessage(ws: WebSocket, message: string | ArrayBuffer): Promise<void> {
    try {
      if (isWatcher(ws)) this.#workspace.watchers.next(ws);
      else await this.#workspace.hosts.receive(ws, message);
    } catch (error) {
      console.error("socket message failed", { error: clipMessage(String(error)) });
      ws.close(CloseCode.internalError, "internal error");
    }
  }

  override async webSocketClose(ws: WebSocket, code: number, reason: string): Promise<void> {
    answerClose(ws, code, reason);
    this.#closed(ws, code, reason);
  }

  /** The platform calls no `webSocketClose` after an error. */
  override async webSocketError(ws: WebSocket): Promise<void> {
    this.#closed(ws, CloseCode.lost, "socket broken");
  }

  #closed(ws: WebSocket, code: number, reason: string): void {
    if (!isWatcher(ws)) return this.#workspace.hosts.closed(ws, code, reason);
    const registration = registrationOf(this.ctx, ws);
    if (registration) this.ctx.waitUntil(this.#workspace.registrar.leave(registration.id));
  }

  /** For the object of a watcher's subject, whose places are all taken. */
  holdsSocket(id: string): boolean {
    return this.#workspace.registrar.holds(id);
  }

  /** The token of a watcher is revoked. Hosts' sockets of the previous release are ended in this way as well. */
  endSocket(id: string, reason: string): void {
    this.#workspace.registrar.markEnded(id);
    this.#workspace.endSocket(id, reason, CloseCode.unauthorized);
  }

  /**
   * The token of a host is revoked, or its container has ended. Returns how many sockets the host had with the token,
   * after they are closed, those in the placed sessions included.
   */
  endHostToken(token: HostTokenName): Promise<number> {
    return this.#workspace.endHostToken(token);
  }

  override async alarm(): Promise<void> {
    await this.#workspace.runDeadlines(Date.now());
  }
}
