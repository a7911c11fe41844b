import type { AgentOffer } from "../../protocol/host-wire.ts";
import type { WorkspaceStore } from "../store.ts";
import type { Offer } from "./offer.ts";

type Row = Omit<Offer, "isDefault" | "available" | "aliases"> & { isDefault: number; available: number };

/** The aliases of agents by host and agent. They are a value of the store: release 0.1.0 has no column for them. */
type Aliases = Record<string, Record<string, readonly string[]>>;
const ALIASES = "agent-aliases";

/** The agents that each host offers. Every placement and every selection reads all offers, so they are kept in memory. */
export class AgentOffers {
  readonly #sql: SqlStorage;
  readonly #store: WorkspaceStore;
  /** Undefined after a change, until somebody asks. */
  #all: readonly Offer[] | undefined;

  constructor(sql: SqlStorage, store: WorkspaceStore) {
    this.#sql = sql;
    this.#store = store;
  }

  all(): readonly Offer[] {
    if (!this.#store.exists) return [];
    this.#all ??= this.#withAliases(this.#sql.exec<Row>("SELECT * FROM offer ORDER BY host, id").toArray());
    return this.#all;
  }

  /** Replaces the offers of a host. The known `initialize` response of an agent is kept until the agent sends another. */
  replace(host: string, agents: readonly AgentOffer[]): void {
    const before = new Map(this.#ofHost(host).map((offer) => [offer.id, offer]));
    this.remove(host);
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
    const named = agents.flatMap(({ id, aliases = [] }) => (aliases.length > 0 ? [[id, aliases]] : []));
    this.#setAliases(host, Object.fromEntries(named));
  }

  /** The host is forgotten. */
  remove(host: string): void {
    this.#all = undefined;
    this.#sql.exec("DELETE FROM offer WHERE host = ?", host);
    this.#setAliases(host, {});
  }

  #aliases(): Aliases {
    return this.#store.get<Aliases>(ALIASES) ?? {};
  }

  #setAliases(host: string, aliases: Aliases[string]): void {
    const { [host]: before = {}, ...others } = this.#aliases();
    if (JSON.stringify(before) === JSON.stringify(aliases)) return;
    this.#all = undefined;
    this.#store.set(ALIASES, Object.keys(aliases).length > 0 ? { ...others, [host]: aliases } : others);
  }

  setInitialized(host: string, id: string, initialize: string): void {
    this.#all = undefined;
    this.#sql.exec(
      "UPDATE offer SET initialize = ?, error = NULL WHERE host = ? AND id = ?",
      ...[initialize, host, id],
    );
  }

  setFailed(host: string, id: string, error: string): void {
    this.#all = undefined;
    this.#sql.exec("UPDATE offer SET error = ? WHERE host = ? AND id = ?", error, host, id);
  }

  /**
   * An offline host may have been reconfigured since it was last connected, so its agents count as available until
   * the host reports otherwise.
   */
  resetAvailability(): void {
    this.#all = undefined;
    this.#sql.exec(
      "UPDATE offer SET available = 1, reason = NULL WHERE host IN (SELECT name FROM host WHERE state = 'gone')",
    );
  }

  #ofHost(host: string): Offer[] {
    return this.#withAliases(this.#sql.exec<Row>("SELECT * FROM offer WHERE host = ?", host).toArray());
  }

  #withAliases(rows: readonly Row[]): Offer[] {
    const aliases = this.#aliases();
    return rows.map((row) => offerOf(row, aliases[row.host]?.[row.id] ?? []));
  }
}

function offerOf(row: Row, aliases: readonly string[]): Offer {
  return { ...row, isDefault: row.isDefault === 1, available: row.available === 1, aliases };
}
