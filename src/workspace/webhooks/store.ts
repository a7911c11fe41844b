import { isoTime } from "../../protocol/iso-time.ts";
import type { Limits } from "../../protocol/limits.ts";
import type { Maker } from "../../protocol/maker.ts";
import type { WebhookInfo, WebhookPause } from "../../protocol/rest.ts";
import { WEBHOOK_MESSAGE_TYPES, type WebhookMessageType } from "../../protocol/webhook-messages.ts";
import type { WorkspaceStore } from "../store.ts";

/** A webhook: which messages go to which address. */
export type Webhook = {
  id: string;
  url: string;
  events: WebhookMessageType[];
  /** Whether messages about permission requests and questions have links that answer them. */
  links: boolean;
  /** The gateway's address when the webhook was made. */
  origin: string;
  /** The signing secret, encrypted. */
  secret: string;
  createdAt: number;
  /** The first failure after the last success; null if the last attempt succeeded. */
  failingSince: number | null;
  /** Null for a webhook of an earlier build. */
  maker: Maker | null;
  /** Why nothing is delivered; null while messages are delivered. */
  pausedReason: WebhookPause | null;
};

/** A message on its way to one webhook. */
export type Delivery = {
  seq: number;
  webhook: string;
  /** The id of the message, the same at each attempt. */
  id: string;
  body: string;
  /** The number of failed attempts. */
  attempts: number;
  /** When the next attempt is due. */
  next: number;
};

type Row = Omit<Webhook, "events" | "links" | "maker"> & {
  events: string;
  links: number;
  maker: string | null;
  lastAt: number | null;
  lastStatus: number | null;
  isFailureAudited: number;
  dropped: number;
};

type QueueLimits = Pick<Limits, "webhookQueue" | "webhookMessagesRemembered">;

/** Webhooks and their undelivered messages. */
export class WebhookStore {
  readonly #sql: SqlStorage;
  readonly #store: Pick<WorkspaceStore, "exists">;
  readonly #limits: QueueLimits;

  constructor(sql: SqlStorage, store: Pick<WorkspaceStore, "exists">, limits: QueueLimits) {
    this.#sql = sql;
    this.#store = store;
    this.#limits = limits;
  }

  // ---- webhooks ---------------------------------------------------------------------------------------

  add(webhook: Omit<Webhook, "failingSince" | "pausedReason">): void {
    const { id, url, events, links, origin, secret, createdAt, maker } = webhook;
    this.#sql.exec(
      `INSERT INTO webhook (id, url, events, links, origin, secret, createdAt, maker)
       VALUES (?, ?, ?, ?, ?, ?, ?, ?)`,
      ...[id, url, JSON.stringify(events), links ? 1 : 0, origin, secret, createdAt, JSON.stringify(maker)],
    );
  }

  /** Gives the webhook another maker. It goes on. */
  setMaker(id: string, maker: Maker): void {
    const update = "UPDATE webhook SET maker = ?, pausedReason = NULL WHERE id = ?";
    this.#sql.exec(update, JSON.stringify(maker), id);
  }

  setPause(id: string, reason: WebhookPause | null): void {
    this.#sql.exec("UPDATE webhook SET pausedReason = ? WHERE id = ?", reason, id);
  }

  /** Removes the webhook and its undelivered messages. False: there is no such webhook. */
  remove(id: string): boolean {
    if (!this.has(id)) return false;
    this.#sql.exec("DELETE FROM delivery WHERE webhook = ?", id);
    this.#sql.exec("DELETE FROM webhook WHERE id = ?", id);
    return true;
  }

  replaceSecret(id: string, before: string, secret: string): void {
    this.#sql.exec("UPDATE webhook SET secret = ? WHERE id = ? AND secret = ?", secret, id, before);
  }

  has(id: string): boolean {
    if (!this.#store.exists) return false;
    return this.#sql.exec("SELECT 1 FROM webhook WHERE id = ?", id).toArray().length > 0;
  }

  all(): Webhook[] {
    return this.#rows().map((row) => ({
      ...row,
      events: eventsOf(row),
      links: row.links === 1,
      maker: makerIn(row),
    }));
  }

  find(id: string): Webhook | undefined {
    return this.all().find((webhook) => webhook.id === id);
  }

  list(): WebhookInfo[] {
    return this.#rows().map((row) => {
      const { id, url, createdAt, lastAt, lastStatus: status, failingSince, dropped, pausedReason } = row;
      return {
        id,
        url: withoutQuery(url),
        events: eventsOf(row),
        links: row.links === 1,
        createdAt: isoTime(createdAt),
        waiting: this.#countWaiting(id),
        lastDelivery: lastAt === null ? null : { at: isoTime(lastAt), status },
        failingSince: failingSince === null ? null : isoTime(failingSince),
        dropped,
        by: makerIn(row)?.subject ?? null,
        pausedReason,
      };
    });
  }

  /** The types of messages that at least one webhook wants. */
  wanted(): WebhookMessageType[] {
    const rows = this.#rows().map(eventsOf);
    return WEBHOOK_MESSAGE_TYPES.filter((type) => rows.some((events) => events.includes(type)));
  }

  // ---- messages ---------------------------------------------------------------------------------------

  /** Whether a message was not handed over before. Sessions repeat messages whose receipt they did not see. */
  isNew(id: string): boolean {
    const [row] = this.#sql
      .exec<{ seq: number }>("INSERT OR IGNORE INTO seen_message (id) VALUES (?) RETURNING seq", id)
      .toArray();
    if (!row) return false;
    this.#sql.exec(
      "DELETE FROM seen_message WHERE seq <= ?",
      row.seq - this.#limits.webhookMessagesRemembered,
    );
    return true;
  }

  /** Adds a message for a webhook. A full queue drops its oldest message. */
  enqueue(webhook: string, id: string, body: string, at: number): void {
    this.#sql.exec(
      "INSERT INTO delivery (webhook, id, body, attempts, next) VALUES (?, ?, ?, 0, ?)",
      ...[webhook, id, body, at],
    );
    if (this.#countWaiting(webhook) <= this.#limits.webhookQueue) return;
    this.#sql.exec(
      "DELETE FROM delivery WHERE seq = (SELECT MIN(seq) FROM delivery WHERE webhook = ?)",
      webhook,
    );
    this.countDropped(webhook, 1);
  }

  /** The message whose attempt is due first, now or later. */
  next(webhook: string): Delivery | undefined {
    return this.#sql
      .exec<Delivery>("SELECT * FROM delivery WHERE webhook = ? ORDER BY next, seq LIMIT 1", webhook)
      .toArray()[0];
  }

  markDelivered({ seq, webhook }: Delivery, status: number, at: number): void {
    this.#sql.exec("DELETE FROM delivery WHERE seq = ?", seq);
    this.#sql.exec(
      "UPDATE webhook SET lastAt = ?, lastStatus = ?, failingSince = NULL, isFailureAudited = 0 WHERE id = ?",
      ...[at, status, webhook],
    );
  }

  /** `next` is when to try again; null drops the message. */
  markFailed(delivery: Delivery, status: number | null, at: number, next: number | null): void {
    const { seq, webhook, attempts } = delivery;
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
    this.countDropped(webhook, 1);
  }

  countDropped(webhook: string, count: number): void {
    this.#sql.exec("UPDATE webhook SET dropped = dropped + ? WHERE id = ?", count, webhook);
  }

  /** Whether the webhook's failing was not audited since its last success. Marks it as audited. */
  takeFailingAudit(webhook: string): boolean {
    const update =
      "UPDATE webhook SET isFailureAudited = 1 WHERE id = ? AND isFailureAudited = 0 RETURNING id";
    return this.#sql.exec(update, webhook).toArray().length > 0;
  }

  #rows(): Row[] {
    if (!this.#store.exists) return [];
    return this.#sql.exec<Row>("SELECT * FROM webhook ORDER BY createdAt, id").toArray();
  }

  #countWaiting(webhook: string): number {
    const count = "SELECT COUNT(*) AS waiting FROM delivery WHERE webhook = ?";
    return this.#sql.exec<{ waiting: number }>(count, webhook).one().waiting;
  }
}

function eventsOf({ events }: Row): WebhookMessageType[] {
  return JSON.parse(events) as WebhookMessageType[];
}

function makerIn({ maker }: Row): Maker | null {
  return maker === null ? null : (JSON.parse(maker) as Maker);
}

function withoutQuery(url: string): string {
  const { origin, pathname } = new URL(url);
  return `${origin}${pathname}`;
}
