import type { ClientState } from "../durable/attachments.ts";
import type { Deadlines } from "../durable/deadlines.ts";
import { register, registrationFor, unregister } from "../durable/socket-registration.ts";
import type { Caller } from "../protocol/caller.ts";
import { LIMITS } from "../protocol/limits.ts";

/**
 * The points in time a connection waits for: nobody has begun to use it, nobody uses it any more, its socket has been
 * silent for long, its token is about to expire, or has.
 */
export type ConnectionDeadline = "handshake" | "idle" | "silence" | "token-warning" | "token-expiry";

/** A connection lives no longer than its token: its tenant knows of it, and it knows when that ends. */
export class TokenLife {
  readonly #ctx: DurableObjectState;
  readonly #env: Env;
  readonly #deadlines: Deadlines<ConnectionDeadline>;
  readonly #revoked: () => void;

  /** `revoked` is called when it turns out that the token was revoked. */
  constructor(
    ctx: DurableObjectState,
    env: Env,
    deadlines: Deadlines<ConnectionDeadline>,
    revoked: () => void,
  ) {
    this.#ctx = ctx;
    this.#env = env;
    this.#deadlines = deadlines;
    this.#revoked = revoked;
  }

  /** A client has come, or has come back. */
  begin(state: ClientState): void {
    if (!state.initialized) this.#deadlines.set("handshake", Date.now() + LIMITS.handshakeMs);
    this.#deadlines.set("token-warning", state.caller.expires * 1000 - LIMITS.tokenWarningMs);
    this.#register(state);
  }

  /** A client goes on with another token. One that ends no later is no reason to warn again. */
  goOn(state: ClientState, before: Caller): void {
    if (state.caller.expires > before.expires) this.begin(state);
    else this.#register(state);
  }

  #register({ connection, caller }: ClientState): void {
    this.#deadlines.set("token-expiry", caller.expires * 1000);
    const holder = { class: "connection", name: connection } as const;
    register(this.#ctx, this.#env, registrationFor(caller, "client", holder, connection), this.#revoked);
  }

  end({ connection, caller, allowance }: ClientState): Promise<void> {
    const { tenant, subject } = caller;
    return unregister(this.#env, { id: connection, tenant }, allowance && { subject, unused: allowance });
  }
}

/** Why a socket ends with its token. */
export const EXPIRED = "token expired";
export const REVOKED = "token revoked";
