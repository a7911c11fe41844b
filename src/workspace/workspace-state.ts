import { DurableObject } from "cloudflare:workers";
import { socketKind } from "../durable/attachments.ts";
import { objectName } from "../durable/object-names.ts";
import {
  register,
  registeredSockets,
  registrationFor,
  registrationOf,
  registrationTags,
  unregister,
} from "../durable/socket-registration.ts";
import { socketResponse } from "../durable/socket-response.ts";
import type { Caller } from "../protocol/caller.ts";
import { answerClose, CloseCode } from "../protocol/close-codes.ts";
import type { GitState } from "../protocol/host-wire.ts";
import { HOST, WATCH_WORKSPACE, type WorkspaceWatchRequest } from "../protocol/internal-headers.ts";
import { readLimits } from "../protocol/limits.ts";
import type { Result } from "../protocol/refusal.ts";
import type { CreatedWebhook, SecretInfo, WebhookInfo, WorkspaceView } from "../protocol/rest.ts";
import type { PlacementAnswer, PlacementRequest, SelectedAgent } from "../protocol/rpc.ts";
import type { HandedMessage, WebhookMessageType } from "../protocol/webhook-messages.ts";
import type { SettingsChange } from "../protocol/workspace-settings.ts";
import { checkRight } from "./rights.ts";
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

  release(sessionId: string, processRequest: number): void {
    this.#workspace.release(sessionId, processRequest);
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
    return this.#workspace.agents.select(wanted);
  }

  view(caller: Caller, id: string): WorkspaceView {
    checkRight(this.ctx.id, caller, "session:read", "session:prompt");
    return this.#workspace.view(id);
  }

  async update(caller: Caller, workspace: string, change: SettingsChange): Promise<Result<WorkspaceView>> {
    checkRight(this.ctx.id, caller, "workspace:admin");
    return this.#workspace.update({ tenant: caller.tenant, workspace }, change);
  }

  secrets(caller: Caller): SecretInfo[] {
    checkRight(this.ctx.id, caller, "workspace:admin");
    return this.#workspace.secrets.list();
  }

  async putSecret(
    caller: Caller,
    workspace: string,
    { name, value }: { name: string; value: string },
  ): Promise<Result<undefined>> {
    checkRight(this.ctx.id, caller, "workspace:admin");
    return this.#workspace.putSecret({ tenant: caller.tenant, workspace }, name, value);
  }

  async deleteSecret(caller: Caller, name: string): Promise<Result<undefined>> {
    checkRight(this.ctx.id, caller, "workspace:admin");
    return this.#workspace.deleteSecret(name);
  }

  webhooks(caller: Caller): WebhookInfo[] {
    checkRight(this.ctx.id, caller, "workspace:admin");
    return this.#workspace.webhooks.list();
  }

  async createWebhook(
    caller: Caller,
    workspace: string,
    order: WebhookOrder,
  ): Promise<Result<CreatedWebhook>> {
    checkRight(this.ctx.id, caller, "workspace:admin");
    return this.#workspace.createWebhook({ tenant: caller.tenant, workspace }, order);
  }

  async deleteWebhook(caller: Caller, id: string): Promise<Result<undefined>> {
    checkRight(this.ctx.id, caller, "workspace:admin");
    return this.#workspace.deleteWebhook(id);
  }

  testWebhook(caller: Caller, id: string): Result<undefined> {
    checkRight(this.ctx.id, caller, "workspace:admin");
    return this.#workspace.webhooks.ping(id);
  }

  /** The answer links in a webhook's messages are valid as long as the webhook exists. */
  hasWebhook(id: string): boolean {
    return this.#workspace.webhooks.has(id);
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
    this.#workspace.store.create({ tenant: caller.tenant, workspace: caller.workspaces[0] as string });
    return this.#workspace.hosts.accept(caller);
  }

  #watch({ caller, id }: WorkspaceWatchRequest): Response {
    checkRight(this.ctx.id, caller, "session:read");
    const holder = { class: "workspace", name: objectName(caller.tenant, id) } as const;
    const registration = registrationFor(caller, "watcher", holder);
    const result = this.#workspace.watchers.accept(id, registrationTags(registration));
    if (result.ok)
      register(this.ctx, this.env, registration, () => this.endSocket(registration.id, "token revoked"));
    return socketResponse(result);
  }

  override async webSocketMessage(ws: WebSocket, message: string | ArrayBuffer): Promise<void> {
    if (isWatcher(ws)) this.#workspace.watchers.next(ws);
    else await this.#workspace.hosts.receive(ws, message);
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
    if (registration) this.ctx.waitUntil(unregister(this.env, registration));
  }

  /** The token of a host or of a watcher was revoked. */
  endSocket(id: string, reason: string): void {
    for (const ws of registeredSockets(this.ctx, id)) {
      if (isWatcher(ws)) ws.close(CloseCode.unauthorized, reason);
      else this.#workspace.hosts.dismiss(ws, reason);
    }
  }

  override async alarm(): Promise<void> {
    await this.#workspace.runDeadlines(Date.now());
  }
}

function isWatcher(ws: WebSocket): boolean {
  return socketKind(ws) === "workspace-watcher";
}
