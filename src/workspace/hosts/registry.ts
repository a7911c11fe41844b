import type { GitState, HostLoad } from "../../protocol/host-wire.ts";
import type { WorkspaceStore } from "../store.ts";
import type { HostAbout, HostRecord } from "./record.ts";
import { forgettable } from "./retention.ts";

type Row = Omit<HostRecord, "about" | "load" | "git" | "hasLeft" | "isNotified" | "state"> & {
  state: string;
  about: string;
  load: string | null;
  git: string | null;
  hasLeft: number;
  isNotified: number;
};

/** The hosts of the workspace, connected and gone. */
export class HostRegistry {
  readonly #sql: SqlStorage;
  readonly #store: WorkspaceStore;

  constructor(sql: SqlStorage, store: WorkspaceStore) {
    this.#sql = sql;
    this.#store = store;
  }

  all(): HostRecord[] {
    if (!this.#store.exists) return [];
    return this.#sql.exec<Row>("SELECT * FROM host ORDER BY name").toArray().map(recordOf);
  }

  get(name: string): HostRecord | undefined {
    if (!this.#store.exists) return undefined;
    const [row] = this.#sql.exec<Row>("SELECT * FROM host WHERE name = ?", name).toArray();
    return row && recordOf(row);
  }

  /** The connected hosts, including those that are being drained. */
  present(): HostRecord[] {
    return this.all().filter(({ state }) => state !== "gone");
  }

  /** A host has said hello. */
  put(host: Omit<HostRecord, "load" | "git" | "hasLeft" | "isNotified" | "lastSeenAt">): void {
    this.#sql.exec(
      `INSERT OR REPLACE INTO host
         (name, instance, state, root, about, capacity, connectedAt, lastSeenAt)
       VALUES (?, ?, ?, ?, ?, ?, ?, ?)`,
      host.name,
      host.instance,
      host.state,
      host.root,
      JSON.stringify(host.about),
      host.capacity,
      host.connectedAt,
      host.connectedAt,
    );
  }

  markDraining(name: string): void {
    this.#sql.exec("UPDATE host SET state = 'draining' WHERE name = ? AND state = 'connected'", name);
  }

  markGone(name: string, lastSeenAt: number, { hasLeft }: { hasLeft: boolean }): void {
    this.#sql.exec(
      "UPDATE host SET hasLeft = ?, state = 'gone', lastSeenAt = ? WHERE name = ? AND state <> 'gone'",
      hasLeft ? 1 : 0,
      lastSeenAt,
      name,
    );
  }

  /** The starter of the host has seen it end: none of its processes can come back, whatever its socket said. */
  markEnded(name: string, at: number): void {
    this.#sql.exec(
      `UPDATE host SET hasLeft = 1, isNotified = 0, lastSeenAt = CASE state WHEN 'gone' THEN lastSeenAt ELSE ? END,
         state = 'gone' WHERE name = ?`,
      at,
      name,
    );
  }

  setLoad(name: string, load: HostLoad, at: number): void {
    this.#sql.exec("UPDATE host SET load = ?, lastSeenAt = ? WHERE name = ?", JSON.stringify(load), at, name);
  }

  setGit(name: string, git: GitState | null, at: number): void {
    const text = git && JSON.stringify(git);
    this.#sql.exec("UPDATE host SET git = ?, lastSeenAt = ? WHERE name = ?", text, at, name);
  }

  setNotified(name: string): void {
    this.#sql.exec("UPDATE host SET isNotified = 1 WHERE name = ?", name);
  }

  /** Sessions are to be told again of hosts that are away, because other settings apply. */
  resetNotified(): void {
    this.#sql.exec("UPDATE host SET isNotified = 0");
  }

  /** Deletes hosts that are long gone, except those that a session is placed on or has its files on. */
  prune(now: number): void {
    const gone = this.#sql
      .exec<{ name: string; lastSeenAt: number }>(
        `SELECT name, lastSeenAt FROM host WHERE state = 'gone'
         AND name NOT IN (SELECT host FROM placement WHERE host IS NOT NULL)
         AND name NOT IN (SELECT home FROM placement WHERE home IS NOT NULL)`,
      )
      .toArray();
    for (const name of forgettable(gone, now)) {
      this.#sql.exec("DELETE FROM host WHERE name = ?", name);
      this.#sql.exec("DELETE FROM offer WHERE host = ?", name);
    }
  }
}

function recordOf(row: Row): HostRecord {
  return {
    ...row,
    state: row.state as HostRecord["state"],
    about: JSON.parse(row.about) as HostAbout,
    load: row.load === null ? null : (JSON.parse(row.load) as HostLoad),
    git: row.git === null ? null : (JSON.parse(row.git) as GitState),
    hasLeft: row.hasLeft === 1,
    isNotified: row.isNotified === 1,
  };
}
