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

type Row = { session: string; kind: string; body: string };

/** Messages to sessions, each stored until its session has taken it. */
export class SessionOutbox {
  readonly #sql: SqlStorage;
  readonly #session: (id: string) => SessionReceiver;

  constructor(sql: SqlStorage, session: (id: string) => SessionReceiver) {
    this.#sql = sql;
    this.#session = session;
  }

  /** Replaces an undelivered message of the same kind: the newer message says what holds now. */
  add(session: string, { kind, body }: SessionMessage): void {
    const text = JSON.stringify(body);
    this.#sql.exec(
      "INSERT OR REPLACE INTO session_message (session, kind, body) VALUES (?, ?, ?)",
      ...[session, kind, text],
    );
  }

  /** False: messages are still stored. Some sessions could not be reached, or messages came meanwhile. */
  async deliver(): Promise<boolean> {
    const rows = this.#sql.exec<Row>("SELECT * FROM session_message ORDER BY rowid").toArray();
    for (let at = 0; at < rows.length; at += MAX_CONCURRENT)
      await Promise.all(rows.slice(at, at + MAX_CONCURRENT).map((row) => this.#deliver(row)));
    return this.#sql.exec("SELECT 1 FROM session_message LIMIT 1").toArray().length === 0;
  }

  async #deliver({ session, kind, body }: Row): Promise<void> {
    try {
      await send(this.#session(session), { kind, body: JSON.parse(body) } as SessionMessage);
    } catch (error) {
      console.error("session message not delivered", { session, kind, error: String(error) });
      return;
    }
    // A newer message may have taken the row's place meanwhile.
    this.#sql.exec(
      "DELETE FROM session_message WHERE session = ? AND kind = ? AND body = ?",
      ...[session, kind, body],
    );
  }
}

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
