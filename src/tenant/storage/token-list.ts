import type { SubjectRevocation, SubjectRevocations, SubjectToken } from "../../protocol/subject-rpc.ts";

type Row = { kind: string; value: string; workspace: string; until: number | null };

/**
 * The tokens that were met in this tenant, each with its subject. A subject's object asks for each of its tokens once;
 * by this list a revocation of a token finds the object to report to.
 */
export class TokenList {
  readonly #storage: DurableObjectStorage;

  constructor(storage: DurableObjectStorage) {
    this.#storage = storage;
  }

  /** A token that is in the list costs no row. */
  add({ subject, jti, expires }: SubjectToken, now: number): void {
    const { sql } = this.#storage;
    const found = sql.exec(
      "SELECT 1 FROM token WHERE subject = ? AND jti = ? AND expires >= ?",
      ...[subject, jti ?? "", Math.ceil(expires)],
    );
    if (found.toArray().length > 0) return;
    sql.exec("DELETE FROM token WHERE expires < ?", Math.floor(now / 1000) - EXTRA_SECONDS);
    sql.exec(
      `INSERT INTO token (subject, jti, expires) VALUES (?, ?, ?)
       ON CONFLICT (subject, jti) DO UPDATE SET expires = max(expires, excluded.expires)`,
      ...[subject, jti ?? "", Math.ceil(expires)],
    );
    this.markChanged();
  }

  /** The subjects that a revocation is about, of those that have ever shown a token. */
  subjectsOf(kind: "subject" | "jti", value: string): string[] {
    const { sql } = this.#storage;
    const found =
      kind === "subject"
        ? sql.exec<{ subject: string }>("SELECT subject FROM token WHERE subject = ? LIMIT 1", value)
        : sql.exec<{ subject: string }>("SELECT subject FROM token WHERE jti = ?", value);
    return found.toArray().map(({ subject }) => subject);
  }

  /** Every later list of a subject's revocations has a higher revision. */
  markChanged(): void {
    const { kv } = this.#storage;
    kv.put(REVISION, this.#revision + 1);
  }

  /** The revocations of a subject and of its tokens. A token whose bearer has logged out counts as revoked. */
  revocationsOf(subject: string): SubjectRevocations {
    const rows = this.#storage.sql
      .exec<Row>(
        `SELECT kind, value, workspace, until FROM revocation WHERE kind = 'subject' AND value = ?1
         UNION ALL
         SELECT kind, value, workspace, until FROM token
           JOIN revocation ON revocation.kind = 'jti' AND revocation.value = token.jti WHERE token.subject = ?1
         UNION ALL
         SELECT 'jti', logout.jti, '', NULL FROM token JOIN logout ON logout.jti = token.jti
           WHERE token.subject = ?1`,
        subject,
      )
      .toArray();
    return { revision: this.#revision, revocations: rows.map(revocationOf) };
  }

  get #revision(): number {
    return this.#storage.kv.get<number>(REVISION) ?? 0;
  }
}

function revocationOf({ kind, value, workspace, until }: Row): SubjectRevocation {
  return {
    kind: kind as SubjectRevocation["kind"],
    value,
    workspace: workspace === "" ? null : workspace,
    until,
  };
}

const REVISION = "revision";

/** A subject's object forgets an expired token earlier than its tenant, and so asks for it again if it must. */
const EXTRA_SECONDS = 3600;
