import type { WorkspaceStore } from "../store.ts";

/** A session that has an agent process or waits for one. */
export type Placement = {
  session: string;
  agent: string;
  /** The event of the session's log that requested the process. */
  processRequest: number;
  /** The host that has the session's files. */
  home: string | null;
  /** The host that was told to run the process, and its instance; null while the session waits for a host. */
  host: string | null;
  instance: string | null;
};

/** Which host runs which session. */
export class Placements {
  readonly #sql: SqlStorage;
  readonly #store: WorkspaceStore;

  constructor(sql: SqlStorage, store: WorkspaceStore) {
    this.#sql = sql;
    this.#store = store;
  }

  get(session: string): Placement | undefined {
    if (!this.#store.exists) return undefined;
    return this.#sql.exec<Placement>("SELECT * FROM placement WHERE session = ?", session).toArray()[0];
  }

  all(limit = -1): Placement[] {
    if (!this.#store.exists) return [];
    return this.#sql.exec<Placement>("SELECT * FROM placement ORDER BY session LIMIT ?", limit).toArray();
  }

  on(host: string): Placement[] {
    return this.#sql.exec<Placement>("SELECT * FROM placement WHERE host = ?", host).toArray();
  }

  waiting(): Placement[] {
    return this.#sql.exec<Placement>("SELECT * FROM placement WHERE host IS NULL").toArray();
  }

  /** The number of sessions per host. The empty name counts the sessions that wait. */
  counts(): Map<string, number> {
    if (!this.#store.exists) return new Map();
    const rows = this.#sql
      .exec<{ host: string; sessions: number }>(
        "SELECT COALESCE(host, '') AS host, COUNT(*) AS sessions FROM placement GROUP BY host",
      )
      .toArray();
    return new Map(rows.map(({ host, sessions }) => [host, sessions]));
  }

  /** Adds a waiting session, unless the workspace has this process request or a later one of the session already. */
  request({
    session,
    agent,
    processRequest,
    home,
  }: Pick<Placement, "session" | "agent" | "processRequest" | "home">): void {
    const before = this.get(session);
    if (before && before.processRequest >= processRequest) return;
    this.#sql.exec(
      `INSERT OR REPLACE INTO placement (session, agent, processRequest, home, host, instance)
       VALUES (?, ?, ?, ?, NULL, NULL)`,
      ...[session, agent, processRequest, home],
    );
  }

  assign(session: string, agent: string, host: string, instance: string): void {
    this.#sql.exec(
      "UPDATE placement SET agent = ?, host = ?, instance = ? WHERE session = ?",
      ...[agent, host, instance, session],
    );
  }

  /** A later process request of the session stays. */
  remove(session: string, processRequest: number): void {
    if (this.#store.exists)
      this.#sql.exec(
        "DELETE FROM placement WHERE session = ? AND processRequest <= ?",
        session,
        processRequest,
      );
  }
}
