import type { ClientState } from "../../protocol/client-state.ts";
import { cursorAfter } from "../../protocol/cursor.ts";
import type { Client } from "../client.ts";
import type { ConnectionStore } from "../connection-store.ts";
import type { StoredClient } from "../stored-client.ts";

/** The state of a Streamable HTTP client, all of it in storage. */
export class HttpState implements Client {
  readonly #store: ConnectionStore;
  readonly #stored: StoredClient;

  constructor(store: ConnectionStore, stored: StoredClient) {
    this.#store = store;
    this.#stored = stored;
  }

  get state(): ClientState {
    return this.#stored.state;
  }

  change(change: Partial<ClientState>): void {
    this.#stored.change(change);
  }

  sessions(): readonly string[] {
    return this.#stored.sessions();
  }

  /** The answer belongs on the connection's own stream, although it comes from the session. */
  expectOpen(sessionId: string, idText: string): void {
    this.#stored.attach(sessionId);
    this.#store.owe(sessionId, idText);
  }

  attach(sessionId: string, attachment: number): void {
    this.#stored.attach(sessionId);
    this.#store.setCursor(sessionId, cursorAfter({ attachment, seq: attachment }));
  }

  /** A reader may come back with the id of any event. */
  isCaughtUp(): boolean {
    return false;
  }

  release(sessionId: string): void {
    this.#store.detach(sessionId);
  }
}
