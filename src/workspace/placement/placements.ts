import type { IoServer } from "../../protocol/methods.ts";
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
  /** The side that serves the process's files and terminals, as the settings said when the host was told. */
  io: IoServer;
};

/** Which host runs which session. */
export class Placements {
  readonly #sql: SqlStorage;
  readonly #store: WorkspaceStore;
  /** The hosts of every session. Each placement needs the sum of them, so they are read once and kept. */
  #hosts: Map<string, Pick<Placement, "host" | "home">> | undefined;

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
    const counts = new Map<string, number>();
    for (const { host } of this.#hostsOfSessions().values())
      counts.set(host ?? "", (counts.get(host ?? "") ?? 0) + 1);
    return counts;
  }

  /** The hosts that a session is placed on or has its files on. */
  neededHosts(): Set<string> {
    const hosts = [...this.#hostsOfSessions().values()].flatMap(({ host, home }) => [host, home]);
    return new Set(hosts.filter((host) => host !== null));
  }

  #hostsOfSessions(): Map<string, Pick<Placement, "host" | "home">> {
    if (!this.#hosts) {
      const rows = this.#sql.exec<Placement>("SELECT session, host, home FROM placement").toArray();
      this.#hosts = new Map(rows.map(({ session, host, home }) => [session, { host, home }]));
    }
    return this.#hosts;
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
    this.#hosts?.set(session, { host: null, home });
  }

  assign(session: string, to: Pick<Placement, "agent" | "host" | "instance" | "io">): void {
    this.#sql.exec(
      "UPDATE placement SET agent = ?, host = ?, instance = ?, io = ? WHERE session = ?",
      ...[to.agent, to.host, to.instance, to.io, session],
    );
    const hosts = this.#hosts?.get(session);
    if (hosts) this.#hosts?.set(session, { ...hosts, host: to.host });
  }

  /** A later process request of the session stays. */
  remove(session: string, processRequest: number): void {
    if (!this.#store.exists) return;
    const { rowsWritten } = this.#sql.exec(
      "DELETE FROM placement WHERE session = ? AND processRequest <= ?",
      session,
      processRequest,
    );
    if (rowsWritten > 0) this.#hosts?.delete(session);
  }
}
