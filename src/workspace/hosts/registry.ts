import type { AgentOffer, GitState, HostLoad } from "../../protocol/host-wire.ts";
import type { Candidate } from "../placement/policy.ts";
import type { Store } from "../store.ts";
import type { HostAbout, HostRecord, Offer } from "./record.ts";

/** How many hosts that are gone are remembered, and for how long. */
const GONE_KEPT = 50;
const GONE_KEPT_MS = 30 * 24 * 60 * 60 * 1000;

export class Hosts {
  readonly #sql: SqlStorage;
  readonly #store: Store;

  constructor(sql: SqlStorage, store: Store) {
    this.#sql = sql;
    this.#store = store;
  }

  all(): HostRecord[] {
    if (!this.#store.exists) return [];
    return this.#sql.exec<HostRow>("SELECT * FROM host ORDER BY name").toArray().map(fromRow);
  }

  get(name: string): HostRecord | undefined {
    if (!this.#store.exists) return undefined;
    const [row] = this.#sql.exec<HostRow>("SELECT * FROM host WHERE name = ?", name).toArray();
    return row && fromRow(row);
  }

  /** Connected hosts, with or without an end in sight. */
  present(): HostRecord[] {
    return this.all().filter(({ state }) => state !== "gone");
  }

  greet(host: Omit<HostRecord, "load" | "git" | "left" | "told" | "lastSeenAt">): void {
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

  drains(name: string): void {
    this.#sql.exec("UPDATE host SET state = 'draining' WHERE name = ? AND state = 'connected'", name);
  }

  goes(name: string, lastSeenAt: number, left: boolean): void {
    this.#sql.exec(
      "UPDATE host SET isLeft = ?, state = 'gone', lastSeenAt = ? WHERE name = ? AND state <> 'gone'",
      left ? 1 : 0,
      lastSeenAt,
      name,
    );
  }

  /** Whoever started it has seen its end: nothing of it can come back, whatever its socket said. */
  ended(name: string, at: number): void {
    this.#sql.exec(
      `UPDATE host SET isLeft = 1, told = 0, lastSeenAt = CASE state WHEN 'gone' THEN lastSeenAt ELSE ? END,
         state = 'gone' WHERE name = ?`,
      at,
      name,
    );
  }

  reportLoad(name: string, load: HostLoad, at: number): void {
    this.#sql.exec("UPDATE host SET load = ?, lastSeenAt = ? WHERE name = ?", JSON.stringify(load), at, name);
  }

  reportGit(name: string, git: GitState | null, at: number): void {
    const text = git && JSON.stringify(git);
    this.#sql.exec("UPDATE host SET git = ?, lastSeenAt = ? WHERE name = ?", text, at, name);
  }

  told(name: string, told: boolean): void {
    this.#sql.exec("UPDATE host SET told = ? WHERE name = ?", told ? 1 : 0, name);
  }

  /** Forgets hosts that are long gone, unless a session is still placed on them. */
  prune(now: number): void {
    const gone = this.#sql
      .exec<{ name: string; lastSeenAt: number }>(
        `SELECT name, lastSeenAt FROM host WHERE state = 'gone'
         AND name NOT IN (SELECT host FROM placement WHERE host IS NOT NULL)
         AND name NOT IN (SELECT home FROM placement WHERE home IS NOT NULL)
         ORDER BY lastSeenAt DESC`,
      )
      .toArray();
    for (const [place, { name, lastSeenAt }] of gone.entries()) {
      if (place < GONE_KEPT && lastSeenAt + GONE_KEPT_MS > now) continue;
      this.#sql.exec("DELETE FROM host WHERE name = ?", name);
      this.#sql.exec("DELETE FROM offer WHERE host = ?", name);
    }
  }

  // ---- agents -----------------------------------------------------------------------------------------

  /** What a host offers as of now; what its agents said to the same offer before is kept until they say it again. */
  offer(host: string, agents: readonly AgentOffer[]): void {
    const before = new Map(this.#offersOf(host).map((offer) => [offer.id, offer]));
    this.#sql.exec("DELETE FROM offer WHERE host = ?", host);
    for (const { id, name, default: isDefault, available = true, reason, description, version } of agents) {
      this.#sql.exec(
        `INSERT OR REPLACE INTO offer
           (host, id, name, isDefault, available, reason, description, version, initialize)
         VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)`,
        host,
        id,
        name,
        isDefault ? 1 : 0,
        available ? 1 : 0,
        reason ?? null,
        description ?? null,
        version ?? null,
        before.get(id)?.initialize ?? null,
      );
    }
  }

  initialized(host: string, id: string, initialize: string): void {
    this.#sql.exec(
      "UPDATE offer SET initialize = ?, error = NULL WHERE host = ? AND id = ?",
      initialize,
      host,
      id,
    );
  }

  failed(host: string, id: string, error: string): void {
    this.#sql.exec("UPDATE offer SET error = ? WHERE host = ? AND id = ?", error, host, id);
  }

  /** What hosts that are not here lacked when they were, they may have by now. */
  doubt(): void {
    this.#sql.exec(
      "UPDATE offer SET available = 1, reason = NULL WHERE host IN (SELECT name FROM host WHERE state = 'gone')",
    );
  }

  offers(): Offer[] {
    if (!this.#store.exists) return [];
    return this.#sql.exec<OfferRow>("SELECT * FROM offer ORDER BY host, id").toArray().map(fromOfferRow);
  }

  #offersOf(host: string): Offer[] {
    return this.#sql.exec<OfferRow>("SELECT * FROM offer WHERE host = ?", host).toArray().map(fromOfferRow);
  }

  /** The hosts as the placing of a session sees them. */
  candidates(): Candidate[] {
    const placed = this.#store.counts();
    const offers = Map.groupBy(this.offers(), ({ host }) => host);
    return this.all().map((host) => ({
      name: host.name,
      state: host.state,
      lastSeenAt: host.lastSeenAt,
      left: host.left,
      agents: (offers.get(host.name) ?? []).filter(({ available }) => available).map(({ id }) => id),
      placed: placed.get(host.name) ?? 0,
      capacity: host.capacity,
      maxAgents: host.about.maxAgents ?? null,
      loadAverage: host.load?.loadAverage ?? 0,
    }));
  }
}

type HostRow = Omit<HostRecord, "about" | "load" | "git" | "left" | "told" | "state"> & {
  state: string;
  about: string;
  load: string | null;
  git: string | null;
  isLeft: number;
  told: number;
};
type OfferRow = Omit<Offer, "isDefault" | "available"> & { isDefault: number; available: number };

function fromRow({ isLeft, ...row }: HostRow): HostRecord {
  return {
    ...row,
    state: row.state as HostRecord["state"],
    about: JSON.parse(row.about) as HostAbout,
    load: row.load === null ? null : (JSON.parse(row.load) as HostLoad),
    git: row.git === null ? null : (JSON.parse(row.git) as GitState),
    left: isLeft === 1,
    told: row.told === 1,
  };
}

function fromOfferRow(row: OfferRow): Offer {
  return { ...row, isDefault: row.isDefault === 1, available: row.available === 1 };
}
