import { isoTime } from "../../protocol/iso-time.ts";
import { accepted, type Refusal, type Result, refused } from "../../protocol/refusal.ts";
import type { SecretInfo } from "../../protocol/rest.ts";
import type { WorkspaceStore } from "../store.ts";
import type { Encryption } from "./encryption.ts";

/** The workspace's secrets, each encrypted for its name. Only hosts get their values. */
export class SecretStore {
  readonly #sql: SqlStorage;
  readonly #store: WorkspaceStore;
  readonly #encryption: Encryption;

  constructor(sql: SqlStorage, store: WorkspaceStore, encryption: Encryption) {
    this.#sql = sql;
    this.#store = store;
    this.#encryption = encryption;
  }

  list(): SecretInfo[] {
    if (!this.#store.exists) return [];
    return this.#sql
      .exec<{ name: string; at: number }>("SELECT name, at FROM secret ORDER BY name")
      .toArray()
      .map(({ name, at }) => ({ name, updatedAt: isoTime(at) }));
  }

  async put(name: string, value: string): Promise<Result<undefined>> {
    const names = this.list().map((secret) => secret.name);
    if (names.length >= MAX_SECRETS && !names.includes(name))
      return refused({ reason: "conflict", message: "The workspace has too many secrets" });
    const encrypted = await this.#encryption.encrypt(name, value);
    if (encrypted === undefined) return refused(NO_SECRETS_KEY);
    this.#sql.exec(
      "INSERT OR REPLACE INTO secret (name, value, at) VALUES (?, ?, ?)",
      ...[name, encrypted, Date.now()],
    );
    return accepted();
  }

  /** False: there is no such secret. */
  remove(name: string): Result<undefined> {
    const isRemoved =
      this.#store.exists && this.#sql.exec("DELETE FROM secret WHERE name = ?", name).rowsWritten > 0;
    return isRemoved ? accepted() : refused({ reason: "not-found", message: "Unknown secret" });
  }

  /**
   * All secrets in clear text, without those that were encrypted under an unknown key. Secrets under a previous key are
   * encrypted again under the newest.
   */
  async decryptAll(): Promise<Record<string, string>> {
    const rows = this.#sql.exec<{ name: string; value: string }>("SELECT name, value FROM secret").toArray();
    const values: Record<string, string> = {};
    for (const { name, value } of rows) {
      try {
        values[name] = await this.#encryption.decrypt(name, value, (renewed) => {
          const update = "UPDATE secret SET value = ? WHERE name = ? AND value = ?";
          this.#sql.exec(update, renewed, name, value);
        });
      } catch (error) {
        console.error("secret cannot be read", { name, error: String(error) });
      }
    }
    return values;
  }
}

/** All secrets of a workspace travel in one message to its hosts. */
const MAX_SECRETS = 100;

export const NO_SECRETS_KEY: Refusal = {
  reason: "not-configured",
  message: "This gateway keeps no secrets: SECRETS_KEY is not set",
};
