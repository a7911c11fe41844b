import type { SubjectToken } from "../../protocol/subject-rpc.ts";

/** A host's token whose sockets have to end, and the workspace that can end them. */
export type EndingHostToken = { readonly jti: string | null; readonly workspace: string };

type Row = { jti: string; workspace: string };

type StoredToken = Omit<SubjectToken, "tenant" | "subject">;

/** The tokens of one subject. The tenant has those in its list that are noted. */
export class SubjectTokens {
  readonly #sql: SqlStorage;

  constructor(sql: SqlStorage) {
    this.#sql = sql;
  }

  has({ jti, workspace, expires }: SubjectToken): boolean {
    const found = this.#sql.exec(
      "SELECT 1 FROM token WHERE jti = ? AND workspace = ? AND expires >= ? AND isNoted = 1",
      ...[jti ?? "", workspace ?? "", expires],
    );
    return found.toArray().length > 0;
  }

  put({ jti, workspace, expires, isHost }: StoredToken, isNoted: boolean): void {
    this.#sql.exec(
      `INSERT INTO token (jti, workspace, expires, isHost, isNoted) VALUES (?, ?, ?, ?, ?)
       ON CONFLICT (jti, workspace) DO UPDATE SET
         expires = max(expires, excluded.expires), isNoted = max(isNoted, excluded.isNoted)`,
      ...[jti ?? "", workspace ?? "", Math.ceil(expires), isHost ? 1 : 0, isNoted ? 1 : 0],
    );
  }

  /** The tokens that a tenant of the previous release could not add to its list. */
  unnoted(): StoredToken[] {
    return this.#sql
      .exec<Row & { expires: number; isHost: number }>(
        "SELECT jti, workspace, expires, isHost FROM token WHERE isNoted = 0",
      )
      .toArray()
      .map(({ jti, workspace, expires, isHost }) => ({
        jti: jti === "" ? null : jti,
        workspace: workspace === "" ? null : workspace,
        expires,
        ...(isHost === 1 && { isHost: true }),
      }));
  }

  /** The tokens of hosts. */
  ofHosts(): EndingHostToken[] {
    return this.#hosts("isHost = 1");
  }

  markEnding(tokens: readonly EndingHostToken[]): void {
    for (const { jti, workspace } of tokens)
      this.#sql.exec(
        "UPDATE token SET isEnding = 1 WHERE jti = ? AND workspace = ?",
        ...[jti ?? "", workspace],
      );
  }

  /** The tokens whose workspaces have not confirmed the end of their sockets. */
  ending(): EndingHostToken[] {
    return this.#hosts("isEnding = 1");
  }

  confirmEnd({ jti, workspace }: EndingHostToken): void {
    this.#sql.exec(
      "UPDATE token SET isEnding = 0 WHERE jti = ? AND workspace = ?",
      ...[jti ?? "", workspace],
    );
  }

  removeExpired(now: number): void {
    this.#sql.exec("DELETE FROM token WHERE expires < ?", Math.floor(now / 1000) - EXTRA_SECONDS);
  }

  /** When the last token ends, in milliseconds since the epoch; null if there is none. */
  lastEnd(): number | null {
    const { expires } = this.#sql
      .exec<{ expires: number | null }>("SELECT max(expires) AS expires FROM token")
      .one();
    return expires === null ? null : (expires + EXTRA_SECONDS + 1) * 1000;
  }

  #hosts(condition: string): EndingHostToken[] {
    return this.#sql
      .exec<Row>(`SELECT jti, workspace FROM token WHERE ${condition}`)
      .toArray()
      .map(({ jti, workspace }) => ({ jti: jti === "" ? null : jti, workspace }));
  }
}

/** An issuer's clock may differ from ours by five minutes, so a token may be accepted for that long after its expiry. */
const EXTRA_SECONDS = 300;
