import { hmac } from "fast-sha256";
import type { Caller } from "../../protocol/caller.ts";
import type { LogView } from "../core/read/pseudonyms.ts";
import { personNames } from "../core/state/people.ts";
import type { SessionState } from "../core/state/state.ts";

/** The part of the object's key-value storage that the names need. */
type NameStore = { get<T>(key: string): T | undefined; put<T>(key: string, value: T): void };

/**
 * The names under which bearers of links see connections: the same within one session, different in every other one.
 * A connection's id lets its own client continue it, so the id is not for strangers.
 */
export class ConnectionNames {
  readonly #store: NameStore;
  readonly #known = new Map<string, string>();
  #secret: Uint8Array | undefined;

  constructor(store: NameStore) {
    this.#store = store;
  }

  /** How this caller sees the log. */
  viewOf(
    { redacted, session }: Pick<Caller, "redacted" | "session">,
    state: Pick<SessionState, "people">,
  ): LogView {
    const pseudonym = session === undefined ? undefined : this.of;
    return { redact: redacted === true, pseudonym, personName: personNames(state) };
  }

  readonly of = (connection: string): string => {
    const known = this.#known.get(connection);
    if (known !== undefined) return known;
    const digest = hmac(this.#key(), new TextEncoder().encode(connection)).subarray(0, NAME_BYTES);
    const name = `client-${[...digest].map((byte) => byte.toString(16).padStart(2, "0")).join("")}`;
    if (this.#known.size >= NAMES_KNOWN) this.#known.clear();
    this.#known.set(connection, name);
    return name;
  };

  /** The session's secret, which is made when the first name is needed. */
  #key(): Uint8Array {
    this.#secret ??= this.#store.get<Uint8Array>(SECRET) ?? this.#create();
    return this.#secret;
  }

  #create(): Uint8Array {
    const secret = crypto.getRandomValues(new Uint8Array(32));
    this.#store.put(SECRET, secret);
    return secret;
  }
}

const SECRET = "connection-names";
const NAME_BYTES = 8;
/** Names kept in memory, because a digest takes longer than a line. */
const NAMES_KNOWN = 1000;
