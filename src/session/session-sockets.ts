import { objectName } from "../durable/object-names.ts";
import {
  closeRegistered,
  register,
  registrationFor,
  registrationOf,
  registrationTags,
  unregister,
} from "../durable/socket-registration.ts";
import type { Caller } from "../protocol/caller.ts";
import { CloseCode } from "../protocol/close-codes.ts";
import type { SocketRegistration } from "../protocol/rpc.ts";

/** The sockets of hosts and watchers, as the session's tenant knows them: revoking a token ends its sockets. */
export class SessionSockets {
  readonly #ctx: DurableObjectState;
  readonly #env: Env;

  constructor(ctx: DurableObjectState, env: Env) {
    this.#ctx = ctx;
    this.#env = env;
  }

  /** The registration of a socket that `caller` is about to get, and the tags by which this object finds the socket. */
  prepare(
    caller: Caller,
    kind: SocketRegistration["kind"],
    sessionId: string,
  ): { registration: SocketRegistration; tags: string[] } {
    const holder = { class: "session", name: objectName(caller.tenant, sessionId) } as const;
    const registration = registrationFor(caller, kind, holder);
    return { registration, tags: registrationTags(registration) };
  }

  /** Registers an accepted socket with its tenant. The socket ends if its token has been revoked. */
  register(registration: SocketRegistration): void {
    register(this.#ctx, this.#env, registration, () => this.end(registration.id, "token revoked"));
  }

  unregister(ws: WebSocket): void {
    const registration = registrationOf(this.#ctx, ws);
    if (registration) this.#ctx.waitUntil(unregister(this.#env, registration));
  }

  end(id: string, reason: string): void {
    closeRegistered(this.#ctx, id, reason);
  }

  /** Ends the sockets whose tokens have expired. Returns when the next token expires; null if none is left. */
  endExpired(sockets: readonly WebSocket[]): number | null {
    const now = Date.now();
    let next: number | null = null;
    for (const ws of sockets) {
      if (ws.readyState !== WebSocket.OPEN) continue;
      const expiresAt = (registrationOf(this.#ctx, ws)?.expires ?? 0) * 1000;
      if (expiresAt <= now) ws.close(CloseCode.unauthorized, "token expired");
      else next = Math.min(next ?? expiresAt, expiresAt);
    }
    return next;
  }
}
