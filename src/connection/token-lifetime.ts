import type { Deadlines } from "../durable/deadlines.ts";
import { register, registrationFor, unregister } from "../durable/socket-registration.ts";
import type { Caller } from "../protocol/caller.ts";
import type { ClientState } from "../protocol/client-state.ts";
import type { Limits } from "../protocol/limits.ts";
import { adoptCaller, type Client } from "./client.ts";

/**
 * The deadlines of a connection. `handshake`: the client must have initialized. `idle`: nobody uses the connection any
 * more. `liveness`: its socket has been silent. `token-warning` and `token-expiry`: its token ends soon, or has ended.
 */
export type ConnectionDeadline = "handshake" | "idle" | "liveness" | "token-warning" | "token-expiry";

/** Bounds a connection's life by its token: the tenant can revoke the token, and its expiry is a deadline. */
export class TokenLifetime {
  readonly #ctx: DurableObjectState;
  readonly #env: Env;
  readonly #deadlines: Deadlines<ConnectionDeadline>;
  readonly #limits: Limits;
  readonly #endRevoked: () => void;

  /** `endRevoked` is called when the tenant says that the token is revoked. */
  constructor(
    ctx: DurableObjectState,
    env: Env,
    deadlines: Deadlines<ConnectionDeadline>,
    limits: Limits,
    endRevoked: () => void,
  ) {
    this.#ctx = ctx;
    this.#env = env;
    this.#deadlines = deadlines;
    this.#limits = limits;
    this.#endRevoked = endRevoked;
  }

  /** A client has connected, or has come back. */
  begin(state: ClientState): void {
    if (!state.initialized) this.#deadlines.set("handshake", Date.now() + this.#limits.handshakeMs);
    this.#deadlines.set("token-warning", state.caller.expires * 1000 - this.#limits.tokenWarningMs);
    this.#register(state);
  }

  /** The client continues with another token. A token that expires no later is no reason for another warning. */
  renew(client: Client, caller: Caller): void {
    const before = adoptCaller(client, caller);
    if (caller.expires > before.expires) this.begin(client.state);
    else this.#register(client.state);
  }

  #register({ connection, caller }: ClientState): void {
    this.#deadlines.set("token-expiry", caller.expires * 1000);
    const holder = { class: "connection", name: connection } as const;
    register(this.#ctx, this.#env, registrationFor(caller, "client", holder, connection), this.#endRevoked);
  }

  /** The connection is over. Its subject gets the rest of the allowance back. */
  end({ connection, caller, allowance }: ClientState): Promise<void> {
    const { tenant, subject } = caller;
    return unregister(this.#env, { id: connection, tenant }, allowance && { subject, unused: allowance });
  }
}

export function isExpired({ caller }: ClientState, now: number): boolean {
  return caller.expires * 1000 <= now;
}

/** Reasons for which a socket closes with its token. */
export const EXPIRED = "token expired";
export const REVOKED = "token revoked";
