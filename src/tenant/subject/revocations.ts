import type { RevocableToken } from "../../protocol/rpc.ts";
import type { SubjectRevocations } from "../../protocol/subject-rpc.ts";

/** The revocations of one subject and of its known tokens, as the tenant has reported them last. */
export class CoveringRevocations {
  readonly #storage: DurableObjectStorage;

  constructor(storage: DurableObjectStorage) {
    this.#storage = storage;
  }

  /** False: a later list has overtaken this one. A list that is known costs no row. */
  replace({ revision, revocations }: SubjectRevocations): boolean {
    const { kv, sql } = this.#storage;
    const current = kv.get<number>(REVISION) ?? -1;
    if (revision <= current) return revision === current;
    kv.put(REVISION, revision);
    sql.exec("DELETE FROM revocation");
    for (const { kind, value, workspace, until } of revocations)
      sql.exec(
        "INSERT OR REPLACE INTO revocation (kind, value, workspace, until) VALUES (?, ?, ?, ?)",
        ...[kind, value, workspace ?? "", until],
      );
    return true;
  }

  /** Whether a revocation covers a token of the subject. Revocations of the subject need not name it again. */
  covers({ jti, workspace }: Omit<RevocableToken, "subject">, now: number): boolean {
    const found = this.#storage.sql.exec(
      `SELECT 1 FROM revocation WHERE (kind = 'subject' OR (kind = 'jti' AND value = ?)) AND workspace IN ('', ?)
       AND (until IS NULL OR until > ?) LIMIT 1`,
      ...[jti ?? null, workspace ?? "", now],
    );
    return found.toArray().length > 0;
  }
}

const REVISION = "revision";
