import { LIMITS } from "../../protocol/limits.ts";
import { initialState, type SessionState, STATE_VERSION } from "../core/state/state.ts";

/** The state as of some event, so that waking up costs the snapshot and the tail, not the whole log. */
export class Snapshots {
  readonly #sql: SqlStorage;
  #savedSeq = 0;

  constructor(sql: SqlStorage) {
    this.#sql = sql;
  }

  create(sessionId: string): SessionState {
    this.#sql.exec("INSERT INTO session (id) VALUES (?)", sessionId);
    return initialState(sessionId);
  }

  /** The newest usable snapshot; without one the state before the first event. Undefined: there is no session. */
  load(): SessionState | undefined {
    const [session] = this.#sql.exec<{ id: string }>("SELECT id FROM session").toArray();
    if (!session) return undefined;
    const [row] = this.#sql.exec<{ state: string }>("SELECT state FROM snapshot").toArray();
    const state = (row && parseSnapshot(row.state)) ?? initialState(session.id);
    this.#savedSeq = state.lastSeq;
    return state;
  }

  /** Saves the state now and then; it commits with the events that led to it. */
  save(state: SessionState): void {
    if (state.lastSeq - this.#savedSeq < LIMITS.eventsPerSnapshot) return;
    this.#savedSeq = state.lastSeq;
    const text = JSON.stringify(state);
    // An older snapshot and a longer tail are slower, not wrong.
    if (text.length > LIMITS.rowChars) return;
    this.#sql.exec(
      "INSERT INTO snapshot (one, seq, state) VALUES (1, ?, ?) ON CONFLICT (one) DO UPDATE SET seq = excluded.seq, state = excluded.state",
      state.lastSeq,
      text,
    );
  }
}

function parseSnapshot(text: string): SessionState | undefined {
  try {
    const state = JSON.parse(text) as SessionState;
    return state.version === STATE_VERSION ? state : undefined;
  } catch {
    return undefined;
  }
}
