import { LIMITS } from "../../protocol/limits.ts";
import { NOTICE_TYPES, type NoticeType } from "../../protocol/webhook-messages.ts";

/** Who is told what, and where. */
export type Webhook = {
  id: string;
  url: string;
  events: NoticeType[];
  /** Whether permission requests come with links that answer them. */
  links: boolean;
  /** Where the gateway was when it was made. */
  origin: string;
  /** Sealed under its id. */
  secret: string;
  createdAt: number;
  /** Since when no attempt has been a success; null if the last one was. */
  failingSince: number | null;
};

/** All that anyone gets to see of it. */
export type WebhookInfo = {
  id: string;
  /** Without the query, which may be a secret. */
  url: string;
  events: NoticeType[];
  links: boolean;
  createdAt: string;
  /** Messages it has not had yet. */
  waiting: number;
  /** The last attempt; without a status there was no answer. */
  lastDelivery: { at: string; status: number | null } | null;
  failingSince: string | null;
  /** Messages it never had: given up, or more than could wait. */
  dropped: number;
};

/** A message on its way to one webhook. */
export type Delivery = {
  seq: number;
  webhook: string;
  /** Of the message: the same at each attempt. */
  id: string;
  body: string;
  /** How many have failed. */
  attempts: number;
  /** When the next one is due. */
  next: number;
};

type Row = Omit<Webhook, "events" | "links"> & {
  events: string;
  links: number;
  lastAt: number | null;
  lastStatus: number | null;
  isNoted: number;
  dropped: number;
};

/** Webhooks and what waits for them, as rows.  */
export class WebhookStore {
  readonly #sql: SqlStorage;
  readonly #exists: () => boolean;

  /** `exists`: whether the workspace has tables. */
  constructor(sql: SqlStorage, exists: () => boolean) {
    this.#sql = sql;
    this.#exists = exists;
  }

  // ---- webhooks ---------------------------------------------------------------------------------------

  add({ id, url, events, links, origin, secret, createdAt }: Omit<Webhook, "failingSince">): void {
    this.#sql.exec(
      "INSERT INTO webhook (id, url, events, links, origin, secret, createdAt) VALUES (?, ?, ?, ?, ?, ?, ?)",
      ...[id, url, JSON.stringify(events), links ? 1 : 0, origin, secret, createdAt],
    );
  }

  /** What waits for it goes with it. False: there is none. */
  remove(id: string): boolean {
    if (!this.has(id)) return false;
    this.#sql.exec("DELETE FROM delivery WHERE webhook = ?", id);
    this.#sql.exec("DELETE FROM webhook WHERE id = ?", id);
    return true;
  }

  has(id: string): boolean {
    if (!this.#exists()) return false;
    return this.#sql.exec("SELECT 1 FROM webhook WHERE id = ?", id).toArray().length > 0;
  }

  all(): Webhook[] {
    return this.#rows().map((row) => ({ ...row, events: eventsIn(row), links: row.links === 1 }));
  }

  info(): WebhookInfo[] {
    return this.#rows().map((row) => {
      const { id, url, createdAt, lastAt, lastStatus: status, failingSince, dropped } = row;
      return {
        id,
        url: withoutQuery(url),
        events: eventsIn(row),
        links: row.links === 1,
        createdAt: iso(createdAt),
        waiting: this.#count(id),
        lastDelivery: lastAt === null ? null : { at: iso(lastAt), status },
        failingSince: failingSince === null ? null : iso(failingSince),
        dropped,
      };
    });
  }

  /** What at least one of them wants to hear of. */
  wanted(): NoticeType[] {
    const rows = this.#rows().map(eventsIn);
    return NOTICE_TYPES.filter((type) => rows.some((events) => events.includes(type)));
  }

  // ---- messages ---------------------------------------------------------------------------------------

  /** False: it has been seen_message of before. */
  hear(id: string): boolean {
    const [row] = this.#sql
      .exec<{ seq: number }>("INSERT OR IGNORE INTO seen_message (id) VALUES (?) RETURNING seq", id)
      .toArray();
    if (!row) return false;
    this.#sql.exec("DELETE FROM seen_message WHERE seq <= ?", row.seq - LIMITS.noticesRemembered);
    return true;
  }

  /** A message for a webhook. The oldest of too many goes. */
  enqueue(webhook: string, id: string, body: string, at: number): void {
    this.#sql.exec(
      "INSERT INTO delivery (webhook, id, body, attempts, next) VALUES (?, ?, ?, 0, ?)",
      ...[webhook, id, body, at],
    );
    if (this.#count(webhook) <= LIMITS.webhookQueue) return;
    this.#sql.exec(
      "DELETE FROM delivery WHERE seq = (SELECT MIN(seq) FROM delivery WHERE webhook = ?)",
      webhook,
    );
    this.drop(webhook, 1);
  }

  /** The one that is due first, be it later than now. */
  next(webhook: string): Delivery | undefined {
    return this.#sql
      .exec<Delivery>("SELECT * FROM delivery WHERE webhook = ? ORDER BY next, seq LIMIT 1", webhook)
      .toArray()[0];
  }

  delivered({ seq, webhook }: Delivery, status: number, at: number): void {
    this.#sql.exec("DELETE FROM delivery WHERE seq = ?", seq);
    this.#sql.exec(
      "UPDATE webhook SET lastAt = ?, lastStatus = ?, failingSince = NULL, isNoted = 0 WHERE id = ?",
      ...[at, status, webhook],
    );
  }

  failed({ seq, webhook, attempts }: Delivery, status: number | null, at: number, next: number | null): void {
    this.#sql.exec(
      "UPDATE webhook SET lastAt = ?1, lastStatus = ?2, failingSince = coalesce(failingSince, ?1) WHERE id = ?3",
      ...[at, status, webhook],
    );
    if (next !== null) {
      const update = "UPDATE delivery SET attempts = ?, next = ? WHERE seq = ?";
      this.#sql.exec(update, attempts + 1, next, seq);
      return;
    }
    this.#sql.exec("DELETE FROM delivery WHERE seq = ?", seq);
    this.drop(webhook, 1);
  }

  drop(webhook: string, count: number): void {
    this.#sql.exec("UPDATE webhook SET dropped = dropped + ? WHERE id = ?", count, webhook);
  }

  /** True once until it succeeds again: whoever looks after it need hear of its failing once. */
  noteFailing(webhook: string): boolean {
    const update = "UPDATE webhook SET isNoted = 1 WHERE id = ? AND isNoted = 0 RETURNING id";
    return this.#sql.exec(update, webhook).toArray().length > 0;
  }

  #rows(): Row[] {
    return this.#exists()
      ? this.#sql.exec<Row>("SELECT * FROM webhook ORDER BY createdAt, id").toArray()
      : [];
  }

  #count(webhook: string): number {
    const count = "SELECT COUNT(*) AS waiting FROM delivery WHERE webhook = ?";
    return this.#sql.exec<{ waiting: number }>(count, webhook).one().waiting;
  }
}

function eventsIn({ events }: Row): NoticeType[] {
  return JSON.parse(events) as NoticeType[];
}

function withoutQuery(url: string): string {
  const { origin, pathname } = new URL(url);
  return `${origin}${pathname}`;
}

function iso(at: number): string {
  return new Date(at).toISOString();
}
