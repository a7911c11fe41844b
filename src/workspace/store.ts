import { Tables } from "../durable/schema.ts";
import type { Settings, SettingsChange } from "../protocol/workspace-settings.ts";
import { WORKSPACE_SCHEMA } from "./schema.ts";
import { defaultSettings } from "./settings.ts";

/** Who the workspace is; the object itself only knows the digest of its name. */
export type Identity = { tenant: string; workspace: string };

/** A session that has an agent process or waits for one. `wish` is the place in its log where it asked. */
export type Placement = {
  session: string;
  agent: string;
  wish: number;
  /** The host that has the session's files. */
  home: string | null;
  /** The host that was told to run it, and which life of that host; null while none could be. */
  host: string | null;
  instance: string | null;
};

/**
 * Settings and placements, as rows. Reading makes nothing: a workspace that nobody has configured and no host
 * has served has no tables.
 */
export class Store {
  readonly #sql: SqlStorage;
  readonly #tables: Tables;

  constructor(storage: DurableObjectStorage) {
    this.#sql = storage.sql;
    this.#tables = new Tables(storage, WORKSPACE_SCHEMA);
  }

  get exists(): boolean {
    return this.#tables.exist;
  }

  create(identity: Identity): void {
    if (this.exists) return;
    this.#tables.create();
    this.set("identity", identity);
  }

  identity(): Identity | undefined {
    return this.get<Identity>("identity");
  }

  // ---- settings ---------------------------------------------------------------------------------------

  settings(): Settings {
    const settings = defaultSettings();
    if (!this.exists) return settings;
    const rows = this.#sql.exec<{ name: string; value: string }>("SELECT name, value FROM setting").toArray();
    const stored = Object.fromEntries(rows.map(({ name, value }) => [name, JSON.parse(value) as unknown]));
    const known = Object.keys(settings).filter((name) => name in stored);
    return { ...settings, ...Object.fromEntries(known.map((name) => [name, stored[name]])) };
  }

  change(change: SettingsChange): void {
    for (const [name, value] of Object.entries(change)) if (value !== undefined) this.set(name, value);
  }

  get<T>(name: string): T | undefined {
    if (!this.exists) return undefined;
    const [row] = this.#sql
      .exec<{ value: string }>("SELECT value FROM setting WHERE name = ?", name)
      .toArray();
    return row && (JSON.parse(row.value) as T);
  }

  set(name: string, value: unknown): void {
    const text = JSON.stringify(value);
    this.#sql.exec("INSERT OR REPLACE INTO setting (name, value) VALUES (?, ?)", name, text);
  }

  // ---- placements -------------------------------------------------------------------------------------

  placement(session: string): Placement | undefined {
    if (!this.exists) return undefined;
    return this.#sql.exec<Placement>("SELECT * FROM placement WHERE session = ?", session).toArray()[0];
  }

  placements(limit = -1): Placement[] {
    if (!this.exists) return [];
    return this.#sql.exec<Placement>("SELECT * FROM placement ORDER BY session LIMIT ?", limit).toArray();
  }

  placedOn(host: string): Placement[] {
    return this.#sql.exec<Placement>("SELECT * FROM placement WHERE host = ?", host).toArray();
  }

  waiting(): Placement[] {
    return this.#sql.exec<Placement>("SELECT * FROM placement WHERE host IS NULL").toArray();
  }

  /** How many sessions each host has; those that wait are under the empty name. */
  counts(): Map<string, number> {
    if (!this.exists) return new Map();
    const rows = this.#sql
      .exec<{ host: string; sessions: number }>(
        "SELECT COALESCE(host, '') AS host, COUNT(*) AS sessions FROM placement GROUP BY host",
      )
      .toArray();
    return new Map(rows.map(({ host, sessions }) => [host, sessions]));
  }

  want({ session, agent, wish, home }: Pick<Placement, "session" | "agent" | "wish" | "home">): void {
    this.#sql.exec(
      `INSERT OR REPLACE INTO placement (session, agent, wish, home, host, instance)
       VALUES (?, ?, ?, ?, NULL, NULL)`,
      session,
      agent,
      wish,
      home,
    );
  }

  assign(session: string, agent: string, host: string, instance: string): void {
    this.#sql.exec(
      "UPDATE placement SET agent = ?, host = ?, instance = ? WHERE session = ?",
      agent,
      host,
      instance,
      session,
    );
  }

  /** A wish that came later stays. */
  release(session: string, wish: number): void {
    if (this.exists) this.#sql.exec("DELETE FROM placement WHERE session = ? AND wish <= ?", session, wish);
  }
}
