import type { GitState, HostLoad } from "../../protocol/host-wire.ts";
import type { AgentOffers } from "../agents/offers.ts";
import type { Placements } from "../placement/placements.ts";
import type { WorkspaceStore } from "../store.ts";
import type { HostToken } from "./host-token.ts";
import type { HostAbout, HostRecord } from "./record.ts";
import { forgettable } from "./retention.ts";
import type { HostSigns } from "./sockets.ts";

type Row = Omit<HostRecord, "about" | "load" | "git" | "hasLeft" | "isNotified" | "state" | "token"> & {
  state: string;
  about: string;
  load: string | null;
  git: string | null;
  token: string | null;
  hasLeft: number;
  isNotified: number;
};

/** The hosts of the workspace, connected and gone. */
export class HostRegistry {
  readonly #sql: SqlStorage;
  readonly #store: WorkspaceStore;
  readonly #signs: () => ReadonlyMap<string, HostSigns>;

  /** `signs`: the signs of life of connected hosts, which are with their sockets. */
  constructor(sql: SqlStorage, store: WorkspaceStore, signs: () => ReadonlyMap<string, HostSigns>) {
    this.#sql = sql;
    this.#store = store;
    this.#signs = signs;
  }

  all(): HostRecord[] {
    if (!this.#store.exists) return [];
    const signs = this.#signs();
    return this.#sql
      .exec<Row>("SELECT * FROM host ORDER BY name")
      .toArray()
      .map((row) => recordOf(row, signs.get(row.name)));
  }

  get(name: string): HostRecord | undefined {
    if (!this.#store.exists) return undefined;
    const [row] = this.#sql.exec<Row>("SELECT * FROM host WHERE name = ?", name).toArray();
    return row && recordOf(row, this.#signs().get(name));
  }

  /** The connected hosts, including those that are being drained. */
  present(): HostRecord[] {
    return this.all().filter(({ state }) => state !== "gone");
  }

  /** A host has said hello. */
  put(host: Omit<HostRecord, "load" | "git" | "hasLeft" | "isNotified" | "lastSeenAt">): void {
    this.#sql.exec(
      `INSERT OR REPLACE INTO host
         (name, instance, state, root, about, capacity, connectedAt, lastSeenAt, token)
       VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)`,
      host.name,
      host.instance,
      host.state,
      host.root,
      JSON.stringify(host.about),
      host.capacity,
      host.connectedAt,
      host.connectedAt,
      host.token && JSON.stringify(host.token),
    );
  }

  /** The host continues with another token. */
  setToken(name: string, token: HostToken): void {
    this.#sql.exec("UPDATE host SET token = ? WHERE name = ?", JSON.stringify(token), name);
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
  prune(now: number, placements: Pick<Placements, "neededHosts">, offers: Pick<AgentOffers, "remove">): void {
    const gone = this.#sql
      .exec<{ name: string; lastSeenAt: number }>("SELECT name, lastSeenAt FROM host WHERE state = 'gone'")
      .toArray();
    if (gone.length === 0) return;
    const needed = placements.neededHosts();
    const unneeded = gone.filter(({ name }) => !needed.has(name));
    for (const name of forgettable(unneeded, now)) {
      this.#sql.exec("DELETE FROM host WHERE name = ?", name);
      offers.remove(name);
    }
  }
}

function recordOf(row: Row, signs: HostSigns | undefined): HostRecord {
  return {
    ...row,
    state: row.state as HostRecord["state"],
    about: JSON.parse(row.about) as HostAbout,
    // Earlier builds wrote the load into the row.
    load: signs?.load ?? (row.load === null ? null : (JSON.parse(row.load) as HostLoad)),
    lastSeenAt: Math.max(row.lastSeenAt, signs?.lastSeenAt ?? 0),
    git: row.git === null ? null : (JSON.parse(row.git) as GitState),
    token: row.token === null ? null : (JSON.parse(row.token) as HostToken),
    hasLeft: row.hasLeft === 1,
    isNotified: row.isNotified === 1,
  };
}
