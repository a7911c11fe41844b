import { type Caller, mayUseWorkspace } from "../../protocol/caller.ts";
import { isoTime } from "../../protocol/iso-time.ts";
import type { Share } from "../../protocol/rest.ts";
import type { ShareOrder } from "../../protocol/rpc.ts";

type Row = {
  id: string;
  session: string;
  workspace: string;
  by_subject: string;
  at: number;
  expires: number;
  redact: number;
};

/** The tenant's share links. Of the secret in a link only the hash is stored. */
export class Shares {
  readonly #sql: SqlStorage;

  constructor(sql: SqlStorage) {
    this.#sql = sql;
  }

  add({ session, workspace, expires, redact }: ShareOrder, by: string, at: number, hash: string): Share {
    this.#sql.exec("DELETE FROM share WHERE expires <= ?", at);
    const row: Row = {
      id: crypto.randomUUID(),
      session,
      workspace,
      by_subject: by,
      at,
      expires,
      redact: Number(redact),
    };
    this.#sql.exec(
      `INSERT INTO share (id, hash, session, workspace, by_subject, at, expires, redact)
       VALUES (?, ?, ?, ?, ?, ?, ?, ?)`,
      ...[row.id, hash, session, workspace, by, at, expires, row.redact],
    );
    return shareOf(row);
  }

  /** The caller that presents the link whose secret has this hash. */
  bearer(tenant: string, hash: string, now: number): Caller | undefined {
    const [row] = this.#sql
      .exec<Row>("SELECT * FROM share WHERE hash = ? AND expires > ?", hash, now)
      .toArray();
    if (!row) return undefined;
    const { id, session, workspace, expires, redact } = row;
    return {
      tenant,
      subject: bearerName(id),
      workspaces: [workspace],
      scopes: ["session:read"],
      expires: Math.floor(expires / 1000),
      jti: bearerName(id),
      session,
      ...(redact !== 0 && { redacted: true }),
    };
  }

  /** The links to sessions in the caller's workspaces, newest first. */
  list(caller: Caller, now: number): Share[] {
    return this.#sql
      .exec<Row>("SELECT * FROM share WHERE expires > ? ORDER BY at DESC, id", now)
      .toArray()
      .filter(({ workspace }) => mayUseWorkspace(caller, workspace))
      .map(shareOf);
  }

  remove(id: string): void {
    this.#sql.exec("DELETE FROM share WHERE id = ?", id);
  }
}

/** The subject and token id of a link's bearers, by which their sockets are found. */
export function bearerName(id: string): string {
  return `share:${id}`;
}

function shareOf({ id, session, workspace, by_subject, at, expires, redact }: Row): Share {
  return {
    ...{ id, session, workspace, by: by_subject, at: isoTime(at), expiresAt: isoTime(expires) },
    redact: redact !== 0,
  };
}
