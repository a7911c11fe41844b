import type { AgentOffer } from "../../protocol/host-wire.ts";
import type { WorkspaceStore } from "../store.ts";
import type { Offer } from "./offer.ts";

type Row = Omit<Offer, "isDefault" | "available"> & { isDefault: number; available: number };

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
    this.#all ??= this.#sql.exec<Row>("SELECT * FROM offer ORDER BY host, id").toArray().map(offerOf);
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
  }

  /** The host is forgotten. */
  remove(host: string): void {
    this.#all = undefined;
    this.#sql.exec("DELETE FROM offer WHERE host = ?", host);
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
    return this.#sql.exec<Row>("SELECT * FROM offer WHERE host = ?", host).toArray().map(offerOf);
  }
}

function offerOf(row: Row): Offer {
  return { ...row, isDefault: row.isDefault === 1, available: row.available === 1 };
}
