import type { ClientState } from "../../protocol/client-state.ts";
import { cursorAfter } from "../../protocol/cursor.ts";
import type { Client } from "../client.ts";
import type { ConnectionStore } from "../connection-store.ts";
import type { StoredClient } from "../stored-client.ts";
import type { StreamReaders } from "./event-stream-readers.ts";

/** The state of a Streamable HTTP client, all of it in storage. */
export class HttpState implements Client {
  readonly #store: ConnectionStore;
  readonly #stored: StoredClient;
  readonly #readers: StreamReaders;

  constructor(store: ConnectionStore, stored: StoredClient, readers: StreamReaders) {
    this.#store = store;
    this.#stored = stored;
    this.#readers = readers;
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

  /** A client that attaches again later reads from its new attachment on. */
  release(sessionId: string): void {
    this.#store.detach(sessionId);
    this.#store.setCursor(sessionId, null);
    this.#readers.of(sessionId)?.moveTo(null);
  }
}
