/**
 * The tokens whose bearers have logged out, or are containers that have ended. Such a token opens nothing any more. Unlike a revoked token, it was not
 * misused, so the links and webhooks that were made with it stay.
 */
export class Logouts {
  readonly #sql: SqlStorage;

  constructor(sql: SqlStorage) {
    this.#sql = sql;
  }

  /** `expires` is the token's own expiry, in seconds since the epoch. */
  add(jti: string, expires: number, now: number): void {
    this.#sql.exec("DELETE FROM logout WHERE expires < ?", Math.floor(now / 1000) - EXTRA_SECONDS);
    this.#sql.exec("INSERT OR REPLACE INTO logout (jti, expires) VALUES (?, ?)", jti, expires);
  }

  has(jti: string | null | undefined): boolean {
    return jti != null && this.#sql.exec("SELECT 1 FROM logout WHERE jti = ?", jti).toArray().length > 0;
  }
}

/** An issuer's clock may differ from ours by five minutes, so a token may be accepted for that long after its expiry. */
const EXTRA_SECONDS = 300;
