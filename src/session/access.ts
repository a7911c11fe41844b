import { closeRegistered, register, registrationOf, unregister } from "../durable/socket-registration.ts";
import { type Caller, isReader, mayUseWorkspace } from "../protocol/caller.ts";
import { CloseCode } from "../protocol/close-codes.ts";
import type { SocketRegistration } from "../protocol/rpc.ts";

/** Whose a session is. Its log says so too; this is what can be known without reading that. */
export type Owner = { readonly tenant: string; readonly workspace: string; readonly sessionId: string };

/**
 * Who may come near a session. That is settled before anything of the session is read, so that being refused takes
 * no longer than asking after a session that is not there. No part of the history.
 */
export class Access {
  readonly #ctx: DurableObjectState;
  readonly #env: Env;
  #owner: Owner | undefined;
  #revoked: boolean;

  constructor(ctx: DurableObjectState, env: Env) {
    this.#ctx = ctx;
    this.#env = env;
    this.#owner = ctx.storage.kv.get<Owner>(OWNER);
    this.#revoked = ctx.storage.kv.get(REVOKED) === true;
  }

  /** Undefined as long as there is no session here. */
  get owner(): Owner | undefined {
    return this.#owner;
  }

  belongsTo(owner: Owner): void {
    this.#owner = owner;
    this.#ctx.storage.kv.put(OWNER, owner);
  }

  /** The session was deleted, and all that was stored with it. */
  forget(): void {
    this.#owner = undefined;
    this.#revoked = false;
  }

  /** Whether there is a session here, in a workspace of the caller's; for who came by a link, the one it is for. */
  isIn(caller: Caller): boolean {
    const owner = this.#owner;
    if (!owner || (caller.session !== undefined && caller.session !== owner.sessionId)) return false;
    return owner.tenant === caller.tenant && mayUseWorkspace(caller, owner.workspace);
  }

  /** Of a session that was revoked only administrators know. */
  mayRead(caller: Caller): boolean {
    const isShut = this.#revoked && !caller.scopes.includes("workspace:admin");
    return isReader(caller) && this.isIn(caller) && !isShut;
  }

  get isRevoked(): boolean {
    return this.#revoked;
  }

  revoke(): void {
    this.#revoked = true;
    this.#ctx.storage.kv.put(REVOKED, true);
  }

  restore(): void {
    this.#revoked = false;
    this.#ctx.storage.kv.delete(REVOKED);
  }

  // ---- sockets ----------------------------------------------------------------------------------------

  /** Makes a socket that was accepted known to its tenant. */
  admit(registration: SocketRegistration): void {
    register(this.#ctx, this.#env, registration, () =>
      closeRegistered(this.#ctx, registration.id, "token revoked"),
    );
  }

  left(ws: WebSocket): void {
    const registration = registrationOf(this.#ctx, ws);
    if (registration) this.#ctx.waitUntil(unregister(this.#env, registration));
  }

  /** Ends those sockets whose tokens have expired; tells when the next one will. */
  endExpired(sockets: readonly WebSocket[]): number | null {
    const open = sockets.filter((ws) => ws.readyState === WebSocket.OPEN);
    const ends = open.map((ws) => ({ ws, at: (registrationOf(this.#ctx, ws)?.expires ?? 0) * 1000 }));
    const later = ends.filter(({ at }) => at > Date.now());
    for (const { ws, at } of ends) if (at <= Date.now()) ws.close(CloseCode.unauthorized, "token expired");
    return later.length === 0 ? null : Math.min(...later.map(({ at }) => at));
  }
}

const OWNER = "owner";
const REVOKED = "revoked";
