import type { Deadlines } from "../durable/deadlines.ts";
import type { ClientState } from "../protocol/client-state.ts";
import { translateBack } from "../protocol/dialects/index.ts";
import type { Limits } from "../protocol/limits.ts";
import type { Refusal } from "../protocol/refusal.ts";
import { detachFrom } from "./client-sessions.ts";
import type { ConnectionStore } from "./connection-store.ts";
import type { Logins } from "./logins.ts";
import type { ConnectionDeadline, TokenLifetime } from "./token-lifetime.ts";

/** The parts of a connection that its transports share. */
export type ConnectionParts = {
  readonly ctx: DurableObjectState;
  readonly env: Env;
  readonly store: ConnectionStore;
  readonly deadlines: Deadlines<ConnectionDeadline>;
  readonly lifetime: TokenLifetime;
  readonly logins: Logins;
  readonly limits: Limits;
};

/** A client whose state is in the connection's storage, because the client may be without a socket. */
export class StoredClient {
  readonly #parts: ConnectionParts;

  constructor(parts: ConnectionParts) {
    this.#parts = parts;
  }

  /** False before the client has connected, and after the connection has ended. */
  get exists(): boolean {
    return this.#parts.store.state !== undefined;
  }

  get state(): ClientState {
    const { state } = this.#parts.store;
    if (!state) throw new Error("There is no connection here");
    return state;
  }

  change(change: Partial<ClientState>): void {
    this.#parts.store.save({ ...this.state, ...change }, Date.now());
  }

  sessions(): readonly string[] {
    return this.#parts.store.attached();
  }

  isAttached(sessionId: string): boolean {
    return this.#parts.store.isAttached(sessionId);
  }

  attach(sessionId: string): void {
    if (!this.isAttached(sessionId)) this.#parts.store.attach(sessionId);
  }

  /** A session's frames in the client's dialect. Most frames become one message. */
  inDialect(sessionId: string, frames: string[]): string[] {
    const { dialect } = this.state;
    return dialect === null ? frames : frames.flatMap((frame) => translateBack(dialect, frame, sessionId));
  }

  /** Ends the connection for good; `last` is its client's latest state. Sessions go on. */
  async end(last: ClientState): Promise<void> {
    const { ctx, env, store, deadlines, lifetime } = this.#parts;
    const sessions = this.sessions();
    store.forget();
    deadlines.forget();
    await ctx.storage.deleteAll();
    await Promise.allSettled([lifetime.end(last), ...detachFrom(env, last, sessions)]);
  }
}

/** The connection does not exist, or belongs to another caller. */
export const UNKNOWN_CONNECTION: Refusal = { reason: "not-found", message: "Unknown Acp-Connection-Id" };
