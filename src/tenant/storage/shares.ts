import { type Caller, mayUseWorkspace } from "../../protocol/caller.ts";
import { isoTime } from "../../protocol/iso-time.ts";
import type { Limits } from "../../protocol/limits.ts";
import type { Maker } from "../../protocol/maker.ts";
import { accepted, type Result, refused } from "../../protocol/refusal.ts";
import type { Share } from "../../protocol/rest.ts";
import type { ShareOrder } from "../../protocol/rpc.ts";
import { type MakerColumns, type RevocationTarget, reachedBy, storedMaker } from "./makers.ts";

type Row = MakerColumns & {
  id: string;
  session: string;
  workspace: string;
  at: number;
  expires: number;
  redact: number;
};

/** A link as its bearers meet it: their rights, and whose rights the link passes on. */
type StoredShare = { maker: Maker; bearer: Caller };

type ShareLimits = Pick<Limits, "sharesPerTenant" | "sharesPerSession" | "sharesPerSubject">;

/** The tenant's share links. Of the secret in a link only the hash is stored. */
export class Shares {
  readonly #sql: SqlStorage;
  readonly #limits: ShareLimits;

  constructor(sql: SqlStorage, limits: ShareLimits) {
    this.#sql = sql;
    this.#limits = limits;
  }

  /** Refuses when a limit is reached. Expired links make room first. */
  add(order: ShareOrder, maker: Maker, at: number, hash: string): Result<Share> {
    this.#sql.exec("DELETE FROM share WHERE expires <= ?", at);
    const full = this.#fullPlace(order.session, maker, at);
    if (full !== undefined)
      return refused({ reason: "conflict", message: `${full} links to sessions: remove some` });
    const { session, workspace, expires, redact } = order;
    const row: Row = {
      ...{ id: crypto.randomUUID(), session, workspace, at, expires, redact: Number(redact) },
      ...{ by_subject: maker.subject, by_jti: maker.jti, by_workspace: maker.workspace },
    };
    this.#sql.exec(
      `INSERT INTO share (id, hash, session, workspace, at, expires, redact, by_subject, by_jti, by_workspace)
       VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
      ...[row.id, hash, session, workspace, at, expires, row.redact],
      ...[maker.subject, maker.jti, maker.workspace],
    );
    return accepted(shareOf(row, false));
  }

  #fullPlace(session: string, { subject }: Maker, now: number): string | undefined {
    const { sharesPerTenant, sharesPerSession, sharesPerSubject } = this.#limits;
    const count = (condition: string, value: string | number) =>
      this.#sql.exec<{ n: number }>(`SELECT count(*) AS n FROM share WHERE ${condition}`, value).one().n;
    if (count("session = ?", session) >= sharesPerSession) return `A session has at most ${sharesPerSession}`;
    if (count("by_subject = ?", subject) >= sharesPerSubject)
      return `One user has at most ${sharesPerSubject}`;
    if (count("expires > ?", now) >= sharesPerTenant) return `A tenant has at most ${sharesPerTenant}`;
    return undefined;
  }

  /** The link whose token has this hash. */
  withHash(tenant: string, hash: string, now: number): StoredShare | undefined {
    return this.#stored(tenant, "hash = ?", hash, now);
  }

  /** The link whose bearers have this subject. */
  withBearer(tenant: string, subject: string, now: number): StoredShare | undefined {
    return this.#stored(tenant, "id = ?", subject.slice(BEARER.length), now);
  }

  #stored(tenant: string, condition: string, value: string, now: number): StoredShare | undefined {
    const [row] = this.#sql
      .exec<Row>(`SELECT * FROM share WHERE ${condition} AND expires > ?`, value, now)
      .toArray();
    if (!row) return undefined;
    const { id, session, workspace, expires, redact } = row;
    const bearer: Caller = {
      tenant,
      subject: bearerName(id),
      workspaces: [workspace],
      scopes: ["session:read"],
      expires: Math.floor(expires / 1000),
      jti: bearerName(id),
      session,
      ...(redact !== 0 && { redacted: true }),
    };
    return { maker: storedMaker(row), bearer };
  }

  /** The links to sessions in the caller's workspaces, newest first. */
  list(caller: Caller, now: number, isCovered: (maker: Maker) => boolean): Share[] {
    return this.#sql
      .exec<Row>("SELECT * FROM share WHERE expires > ? ORDER BY at DESC, id", now)
      .toArray()
      .filter(({ workspace }) => mayUseWorkspace(caller, workspace))
      .map((row) => shareOf(row, isCovered(storedMaker(row))));
  }

  /** The ids of the links that a revocation reaches. */
  reachedBy(target: RevocationTarget, now: number): string[] {
    const [condition, values] = reachedBy(target);
    return this.#sql
      .exec<{ id: string }>(
        `SELECT id FROM share WHERE ${condition} AND expires > ? ORDER BY at, id`,
        ...values,
        now,
      )
      .toArray()
      .map(({ id }) => id);
  }

  remove(id: string): void {
    this.#sql.exec("DELETE FROM share WHERE id = ?", id);
  }
}

/** The subject and token id of a link's bearers, by which their sockets are found. */
export function bearerName(id: string): string {
  return `${BEARER}${id}`;
}

export function isBearer(subject: string): boolean {
  return subject.startsWith(BEARER);
}

const BEARER = "share:";

function shareOf(
  { id, session, workspace, by_subject, at, expires, redact }: Row,
  suspended: boolean,
): Share {
  return {
    ...{ id, session, workspace, by: by_subject, at: isoTime(at), expiresAt: isoTime(expires) },
    ...{ redact: redact !== 0, suspended },
  };
}
