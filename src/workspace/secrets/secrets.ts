import { seal, unseal } from "./encryption.ts";

/** All that anyone but a host gets to see of a secret. */
export type SecretInfo = { name: string; updatedAt: string };

/** A workspace's secrets, each sealed under its name. */
export class SecretStore {
  readonly #sql: SqlStorage;
  /** 32 bytes in base64url; without it nothing can be stored or read. */
  readonly #key: string | undefined;

  constructor(sql: SqlStorage, key: string | undefined) {
    this.#sql = sql;
    this.#key = key;
  }

  list(): SecretInfo[] {
    return this.#sql
      .exec<{ name: string; at: number }>("SELECT name, at FROM secret ORDER BY name")
      .toArray()
      .map(({ name, at }) => ({ name, updatedAt: new Date(at).toISOString() }));
  }

  /** False: this gateway has no key for secrets. */
  async put(name: string, value: string): Promise<boolean> {
    const sealed = await seal(this.#key, name, value);
    if (sealed === undefined) return false;
    this.#sql.exec(
      "INSERT OR REPLACE INTO secret (name, value, at) VALUES (?, ?, ?)",
      name,
      sealed,
      Date.now(),
    );
    return true;
  }

  /** False: there was none. */
  remove(name: string): boolean {
    return this.#sql.exec("DELETE FROM secret WHERE name = ?", name).rowsWritten > 0;
  }

  /** All of them in clear text; one that the key does not fit is left out. */
  async open(): Promise<Record<string, string>> {
    const rows = this.#sql.exec<{ name: string; value: string }>("SELECT name, value FROM secret").toArray();
    const values: Record<string, string> = {};
    for (const { name, value } of rows) {
      try {
        values[name] = await unseal(this.#key, name, value);
      } catch (error) {
        console.error("secret cannot be read", { name, error: String(error) });
      }
    }
    return values;
  }
}
