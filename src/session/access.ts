import { UNAUTHORIZED } from "../protocol/close.ts";
import { endSocket, enter, leave, type Pass, passOf } from "../tenant/pass.ts";

/** Who may come near a session, beyond what their tokens say. It is no part of the history. */
export class Access {
  readonly #ctx: DurableObjectState;
  readonly #env: Env;
  #revoked: boolean;

  constructor(ctx: DurableObjectState, env: Env) {
    this.#ctx = ctx;
    this.#env = env;
    this.#revoked = ctx.storage.kv.get(REVOKED) === true;
  }

  /** Nobody but an administrator knows of it. */
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

  /** Makes a socket that was accepted known to its tenant. */
  admit(pass: Pass): void {
    this.#ctx.waitUntil(
      enter(this.#env, pass).then((isIn) => {
        if (!isIn) endSocket(this.#ctx, pass.id, "token revoked");
      }),
    );
  }

  left(ws: WebSocket): void {
    const pass = passOf(this.#ctx, ws);
    if (pass) this.#ctx.waitUntil(leave(this.#env, pass));
  }

  /** Ends those sockets whose tokens have expired; tells when the next one will. */
  endExpired(sockets: readonly WebSocket[]): number | null {
    const open = sockets.filter((ws) => ws.readyState === WebSocket.OPEN);
    const ends = open.map((ws) => ({ ws, at: (passOf(this.#ctx, ws)?.expires ?? 0) * 1000 }));
    const later = ends.filter(({ at }) => at > Date.now());
    for (const { ws, at } of ends) if (at <= Date.now()) ws.close(UNAUTHORIZED, "token expired");
    return later.length === 0 ? null : Math.min(...later.map(({ at }) => at));
  }
}

const REVOKED = "revoked";
