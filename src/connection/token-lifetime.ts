import type { Deadlines } from "../durable/deadlines.ts";
import { SocketRegistrar } from "../durable/socket-registrar.ts";
import { registrationFor } from "../durable/socket-registration.ts";
import type { Caller } from "../protocol/caller.ts";
import type { ClientState } from "../protocol/client-state.ts";
import type { Limits } from "../protocol/limits.ts";
import { accepted, type Result } from "../protocol/refusal.ts";
import type { Allowance, Amounts, Handover, SocketRegistration } from "../protocol/rpc.ts";
import { adoptCaller, type Client } from "./client.ts";

/**
 * The deadlines of a connection. `handshake`: the client must have initialized. `idle`: nobody uses the connection any
 * more. `liveness`: its socket has been silent. `token-warning` and `token-expiry`: its token ends soon, or has ended.
 * `registration`: the lease of its registration is to be renewed, or its subject's object did not respond.
 */
export type ConnectionDeadline =
  | "handshake"
  | "idle"
  | "liveness"
  | "token-warning"
  | "token-expiry"
  | "registration";

/** Bounds a connection's life by its token: a revocation ends it, and its expiry is a deadline. */
export class TokenLifetime {
  readonly #deadlines: Deadlines<ConnectionDeadline>;
  readonly #limits: Limits;
  readonly #registrar: SocketRegistrar;

  /** `end` is called when the connection may not go on, for example because its token is revoked. */
  constructor(
    ctx: DurableObjectState,
    env: Env,
    deadlines: Deadlines<ConnectionDeadline>,
    limits: Limits,
    isOpen: () => boolean,
    end: (reason: string, code: number) => void,
  ) {
    this.#deadlines = deadlines;
    this.#limits = limits;
    this.#registrar = new SocketRegistrar({
      ...{ ctx, env, limits, deadlines, isOpen },
      end: (_, reason, code) => end(reason, code),
    });
  }

  /** Lets a client in that is about to connect. The value is its first allowance. */
  enter(handover: Pick<Handover, "connection" | "caller">): Promise<Result<Allowance | undefined>> {
    return this.#registrar.enter(registrationOf(handover), FIRST_ALLOWANCE);
  }

  /** Lets a client in that comes back. A client whose registration still holds asks nobody: it would have been ended. */
  async reenter(handover: Pick<Handover, "connection" | "caller">): Promise<Result<unknown>> {
    const registration = registrationOf(handover);
    return this.#registrar.isRegistered(registration) ? accepted() : this.#registrar.enter(registration);
  }

  /** Whether somebody uses the connection, or is about to. */
  holds(id: string): boolean {
    return this.#registrar.holds(id);
  }

  /** An order to end the connection has come, maybe before its socket. */
  markEnded(id: string): void {
    this.#registrar.markEnded(id);
  }

  /** A client has connected, or has come back. */
  begin(state: ClientState): void {
    if (!state.initialized) this.#deadlines.set("handshake", Date.now() + this.#limits.handshakeMs);
    this.#deadlines.set("token-warning", state.caller.expires * 1000 - this.#limits.tokenWarningMs);
    this.#deadlines.set("token-expiry", state.caller.expires * 1000);
  }

  /** The client continues with another token. A token that expires no later is no reason for another warning. */
  renew(client: Client, caller: Caller): void {
    const before = adoptCaller(client, caller);
    if (caller.expires > before.expires) return this.renewed(client.state);
    this.#deadlines.set("token-expiry", caller.expires * 1000);
    this.#registrar.register(registrationOf(client.state));
  }

  /** The client has continued with a token that expires later. */
  renewed(state: ClientState): void {
    this.begin(state);
    this.#registrar.register(registrationOf(state));
  }

  /** Renews the lease of the connection, repeats an unanswered registration, or signs off a connection without socket. */
  checkRegistration(): Promise<void> {
    return this.#registrar.retry();
  }

  /** The connection is over. Its subject gets the rest of the allowance back. */
  end({ connection, caller, allowance }: ClientState): Promise<void> {
    const { tenant, subject } = caller;
    return this.#registrar.signOff({ id: connection, tenant, subject }, allowance);
  }
}

function registrationOf({ connection, caller }: Pick<Handover, "connection" | "caller">): SocketRegistration {
  return registrationFor(caller, "client", { class: "connection", name: connection }, connection);
}

/** Nothing in particular: a small part of what the subject has left, so that the first messages wait for nobody. */
const FIRST_ALLOWANCE: Amounts = { chars: 0, prompts: 0 };

export function isExpired({ caller }: ClientState, now: number): boolean {
  return caller.expires * 1000 <= now;
}

/** The reason for which a socket closes with its token. */
export const EXPIRED = "token expired";
