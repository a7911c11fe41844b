import type { Limits } from "../../protocol/limits.ts";
import { initialState, type SessionState } from "../core/state/state.ts";
import { upgradeState } from "../core/state/state-upgrades.ts";

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

  /**
   * Saves the state at the end of a turn, and every `eventsPerSnapshot` events during one. The snapshot commits together
   * with the events it includes. A snapshot also has all archived events, so that waking reads no archive.
   */
  save(state: SessionState, archivedUpTo: number): void {
    const { eventsPerSnapshot, eventsPerTurnSnapshot } = this.#limits;
    const enough =
      state.turn === null ? Math.min(eventsPerTurnSnapshot, eventsPerSnapshot) : eventsPerSnapshot;
    if (state.lastSeq - this.#savedSeq < enough && this.#savedSeq >= archivedUpTo) return;
    this.#write(state);
  }

  /** Whether the state is short enough for a snapshot. */
  canSave(state: SessionState): boolean {
    return JSON.stringify(state).length <= this.#limits.rowChars;
  }

  /** Saves a state that was folded anew, so that the next load finds it. */
  saveFolded(state: SessionState): void {
    if (state.lastSeq > this.#savedSeq) this.#write(state);
  }

  #write(state: SessionState): void {
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

/** Undefined for a snapshot that cannot be used: its state is folded anew from the log. */
function parseSnapshot(text: string): SessionState | undefined {
  try {
    return upgradeState(JSON.parse(text) as Record<string, unknown>);
  } catch {
    return undefined;
  }
}
