import { type Caller, mayUseWorkspace } from "../protocol/caller.ts";

/** One session for whoever has the link, to read and for a while. */
export type Share = {
  id: string;
  session: string;
  workspace: string;
  /** Who made it, and when. */
  by: string;
  at: string;
  expiresAt: string;
  /** It shows the conversation without what tools have to do with it. */
  redact: boolean;
};

type Row = {
  id: string;
  session: string;
  workspace: string;
  by_subject: string;
  at: number;
  expires: number;
  redact: number;
};

/** Links to sessions, as rows. Of the secret in a link only the hash is kept. */
export class Shares {
  readonly #sql: SqlStorage;

  constructor(sql: SqlStorage) {
    this.#sql = sql;
  }

  add(share: Omit<Row, "id">, hash: string): Share {
    this.#sql.exec("DELETE FROM share WHERE expires <= ?", share.at);
    const { session, workspace, by_subject, at, expires, redact } = share;
    const id = crypto.randomUUID();
    this.#sql.exec(
      `INSERT INTO share (id, hash, session, workspace, by_subject, at, expires, redact)
       VALUES (?, ?, ?, ?, ?, ?, ?, ?)`,
      ...[id, hash, session, workspace, by_subject, at, expires, redact],
    );
    return read({ id, ...share });
  }

  /** Who has the link with the secret of this hash. */
  bearer(tenant: string, hash: string, now: number): Caller | undefined {
    const [row] = this.#sql
      .exec<Row>("SELECT * FROM share WHERE hash = ? AND expires > ?", hash, now)
      .toArray();
    if (!row) return undefined;
    const { id, session, workspace, expires, redact } = row;
    return {
      tenant,
      subject: nameOf(id),
      workspaces: [workspace],
      scopes: ["session:read"],
      expires: Math.floor(expires / 1000),
      jti: nameOf(id),
      session,
      ...(redact !== 0 && { redacted: true }),
    };
  }

  /** Those in the caller's workspaces, the newest first. */
  list(caller: Caller, now: number): Share[] {
    return this.#sql
      .exec<Row>("SELECT * FROM share WHERE expires > ? ORDER BY at DESC, id", now)
      .toArray()
      .filter(({ workspace }) => mayUseWorkspace(caller, workspace))
      .map(read);
  }

  remove(id: string): void {
    this.#sql.exec("DELETE FROM share WHERE id = ?", id);
  }
}

/** What the bearer of a link is called, and what its sockets are found by. */
export function nameOf(id: string): string {
  return `share:${id}`;
}

function read({ id, session, workspace, by_subject, at, expires, redact }: Row): Share {
  const iso = (ms: number) => new Date(ms).toISOString();
  return {
    ...{ id, session, workspace, by: by_subject, at: iso(at), expiresAt: iso(expires) },
    redact: redact !== 0,
  };
}
