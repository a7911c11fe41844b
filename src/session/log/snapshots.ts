import type { Limits } from "../../protocol/limits.ts";
import { initialState, type SessionState, STATE_VERSION } from "../core/state/state.ts";

/** The stored state as of some event. Loading a session costs the snapshot and the events after it, not the whole log. */
export class Snapshots {
  readonly #sql: SqlStorage;
  readonly #limits: Limits;
  #savedSeq = 0;

  constructor(sql: SqlStorage, limits: Limits) {
    this.#sql = sql;
    this.#limits = limits;
  }

  create(sessionId: string): SessionState {
    this.#sql.exec("INSERT INTO session (id) VALUES (?)", sessionId);
    return initialState(sessionId);
  }

  /** The newest usable snapshot, or else the state before the first event. Undefined: no session exists. */
  load(): SessionState | undefined {
    const [session] = this.#sql.exec<{ id: string }>("SELECT id FROM session").toArray();
    if (!session) return undefined;
    const [row] = this.#sql.exec<{ state: string }>("SELECT state FROM snapshot").toArray();
    const state = (row && parseSnapshot(row.state)) ?? initialState(session.id);
    this.#savedSeq = state.lastSeq;
    return state;
  }

  /** Saves the state every `eventsPerSnapshot` events. The snapshot commits together with the events it includes. */
  save(state: SessionState): void {
    if (state.lastSeq - this.#savedSeq < this.#limits.eventsPerSnapshot) return;
    this.#savedSeq = state.lastSeq;
    const text = JSON.stringify(state);
    // Without this snapshot loading is slower, but not wrong: an older snapshot has more events after it.
    if (text.length > this.#limits.rowChars) return;
    this.#sql.exec(
      "INSERT INTO snapshot (one, seq, state) VALUES (1, ?, ?) ON CONFLICT (one) DO UPDATE SET seq = excluded.seq, state = excluded.state",
      state.lastSeq,
      text,
    );
  }
}

/** Undefined for a snapshot of another `STATE_VERSION`: its state is folded anew from the log. */
function parseSnapshot(text: string): SessionState | undefined {
  try {
    const state = JSON.parse(text) as SessionState;
    return state.version === STATE_VERSION ? state : undefined;
  } catch {
    return undefined;
  }
}
