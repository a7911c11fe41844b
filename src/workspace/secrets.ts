import { base64url, CompactEncrypt, compactDecrypt } from "jose";

/** All that anyone but a host gets to see of a secret. */
export type SecretInfo = { name: string; updatedAt: string };

/** A workspace's secrets, encrypted under a key that is not in the storage. */
export class SecretStore {
  readonly #sql: SqlStorage;
  /** 32 bytes in base64url; without it nothing can be stored or read. */
  readonly #key: string | undefined;

  constructor(sql: SqlStorage, key: string | undefined) {
    this.#sql = sql;
    this.#key = key;
    sql.exec(
      "CREATE TABLE IF NOT EXISTS secret (name TEXT PRIMARY KEY, value TEXT NOT NULL, at INTEGER NOT NULL)",
    );
  }

  list(): SecretInfo[] {
    return this.#sql
      .exec<{ name: string; at: number }>("SELECT name, at FROM secret ORDER BY name")
      .toArray()
      .map(({ name, at }) => ({ name, updatedAt: new Date(at).toISOString() }));
  }

  /** False: this gateway has no key for secrets. */
  async put(name: string, value: string): Promise<boolean> {
    const key = keyBytes(this.#key);
    if (!key) return false;
    const sealed = await new CompactEncrypt(new TextEncoder().encode(value))
      // The name is in the header, which is authenticated: a value cannot be moved to another one.
      .setProtectedHeader({ alg: "dir", enc: "A256GCM", sub: name })
      .encrypt(key);
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
    const key = keyBytes(this.#key);
    const values: Record<string, string> = {};
    for (const { name, value } of rows) {
      try {
        if (!key) throw new Error("SECRETS_KEY is not set");
        const { plaintext, protectedHeader } = await compactDecrypt(value, key);
        if (protectedHeader.sub !== name) throw new Error("it belongs to another name");
        values[name] = new TextDecoder().decode(plaintext);
      } catch (error) {
        console.error("secret cannot be read", { name, error: String(error) });
      }
    }
    return values;
  }
}

function keyBytes(text: string | undefined): Uint8Array | undefined {
  return text ? base64url.decode(text) : undefined;
}
