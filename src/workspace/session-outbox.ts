import { retryDelayMs } from "../durable/deadlines.ts";
import { callObject } from "../durable/object-call.ts";
import type { Limits } from "../protocol/limits.ts";
import type { PermissionPolicy } from "../protocol/permission-policy.ts";
import type { HostStatusMessage } from "../protocol/rpc.ts";
import type { WebhookMessageType } from "../protocol/webhook-messages.ts";

/** A message of the workspace to one of its sessions. */
export type SessionMessage =
  | { kind: "policy"; body: PermissionPolicy }
  /** The types of messages that the workspace's webhooks want. */
  | { kind: "webhook-types"; body: WebhookMessageType[] }
  /** The session's process ended with its host, or with an earlier instance of its host. */
  | { kind: "lost"; body: HostStatusMessage }
  /** The session's host has been away for longer than the grace period. The session waits for it. */
  | { kind: "absent"; body: HostStatusMessage }
  /** The session's host is being drained. */
  | { kind: "drain"; body: HostStatusMessage };

/** The methods of a session that take messages. */
export type SessionReceiver = {
  setPolicy(policy: PermissionPolicy): Promise<void>;
  setWebhookTypes(types: WebhookMessageType[]): Promise<void>;
  hostLost(message: HostStatusMessage): Promise<void>;
  hostAbsent(message: HostStatusMessage): Promise<void>;
  hostDraining(message: HostStatusMessage): Promise<void>;
};

type Row = { session: string; kind: string; body: string; tries: number };
type NumberedRow = Row & { number: number };

/**
 * Messages to sessions, each stored until its session has taken the message. A message that failed is tried again after
 * growing pauses. A pause holds up no other message.
 */
export class SessionOutbox {
  readonly #sql: SqlStorage;
  readonly #session: (id: string) => SessionReceiver;
  readonly #limits: OutboxLimits;

  constructor(sql: SqlStorage, session: (id: string) => SessionReceiver, limits: OutboxLimits) {
    this.#sql = sql;
    this.#session = session;
    this.#limits = limits;
  }

  /**
   * Replaces an undelivered message of the same kind: the newer message says what holds now. It is tried at once, and the
   * failures before it still count.
   */
  add(session: string, { kind, body }: SessionMessage): void {
    const text = JSON.stringify(body);
    this.#sql.exec(
      `INSERT INTO session_message (session, kind, body) VALUES (?, ?, ?)
       ON CONFLICT (session, kind) DO UPDATE SET body = excluded.body, next = 0`,
      ...[session, kind, text],
    );
  }

  /** Delivers the messages that are due. Returns when the next message is due; null if none is left. */
  async deliver(): Promise<number | null> {
    const now = Date.now();
    for (let rows = this.#due(0, now); rows.length > 0; rows = this.#due(rows.at(-1)?.number ?? 0, now))
      await Promise.all(rows.map((row) => this.#deliver(row)));
    return this.#sql.exec<{ next: number | null }>("SELECT MIN(next) AS next FROM session_message").one()
      .next;
  }

  #due(after: number, now: number): NumberedRow[] {
    return this.#sql
      .exec<NumberedRow>(
        `SELECT rowid AS number, session, kind, body, tries FROM session_message
         WHERE rowid > ? AND next <= ? ORDER BY rowid LIMIT ?`,
        ...[after, now, MAX_CONCURRENT],
      )
      .toArray();
  }

  async #deliver({ session, kind, body, tries }: Row): Promise<void> {
    try {
      const message = { kind, body: JSON.parse(body) } as SessionMessage;
      await callObject(
        () => this.#session(session),
        (receiver) => send(receiver, message),
        { timeoutMs: this.#limits.callMs },
      );
    } catch (error) {
      console.error("session message not delivered", { session, kind, tries, error: String(error) });
      // A concurrent delivery may have counted the failure, or a newer message may have taken the row's place.
      this.#sql.exec(
        "UPDATE session_message SET tries = ?, next = ? WHERE session = ? AND kind = ? AND body = ? AND tries = ?",
        ...[tries + 1, Date.now() + this.#pauseMs(tries + 1), session, kind, body, tries],
      );
      return;
    }
    // A newer message may have taken the row's place meanwhile.
    this.#sql.exec(
      "DELETE FROM session_message WHERE session = ? AND kind = ? AND body = ?",
      ...[session, kind, body],
    );
  }

  #pauseMs(tries: number): number {
    return Math.max(this.#limits.hostStatusRetryMs, retryDelayMs(tries)) * (1 + Math.random() / 2);
  }
}

type OutboxLimits = Pick<Limits, "callMs" | "hostStatusRetryMs">;

/** Sessions that are called at the same time. */
const MAX_CONCURRENT = 50;

function send(session: SessionReceiver, message: SessionMessage): Promise<void> {
  switch (message.kind) {
    case "policy":
      return session.setPolicy(message.body);
    case "webhook-types":
      return session.setWebhookTypes(message.body);
    case "lost":
      return session.hostLost(message.body);
    case "absent":
      return session.hostAbsent(message.body);
    case "drain":
      return session.hostDraining(message.body);
  }
}
