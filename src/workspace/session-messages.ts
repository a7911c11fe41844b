import type { PermissionPolicy } from "../protocol/permission-policy.ts";
import type { HostStatusMessage } from "../protocol/rpc.ts";
import type { NoticeType } from "../protocol/webhook-messages.ts";
import type { AcpSession } from "../session/acp-session.ts";

/** What a workspace has to tell a session, kept until the session has heard it. */
export type Word =
  | { kind: "policy"; body: PermissionPolicy }
  /** What its webhooks want to hear of. */
  | { kind: "notices"; body: NoticeType[] }
  /** Its process is gone with its host, or with an earlier life of it. */
  | { kind: "lost"; body: HostStatusMessage }
  /** Its host has been away for long; it is waited for. */
  | { kind: "absent"; body: HostStatusMessage }
  /** Its host wants to leave. */
  | { kind: "drain"; body: HostStatusMessage };

/** Sessions that are told something at the same time. */
const AT_ONCE = 50;

export class Words {
  readonly #sql: SqlStorage;
  readonly #session: (id: string) => DurableObjectStub<AcpSession>;

  constructor(sql: SqlStorage, session: (id: string) => DurableObjectStub<AcpSession>) {
    this.#sql = sql;
    this.#session = session;
  }

  /** A newer word of the same kind takes the place of one that has not been heard. */
  add(session: string, { kind, body }: Word): void {
    const text = JSON.stringify(body);
    this.#sql.exec(
      "INSERT OR REPLACE INTO session_message (session, kind, body) VALUES (?, ?, ?)",
      session,
      kind,
      text,
    );
  }

  /** Tells every session what it has to hear. False: some could not be reached. */
  async deliver(): Promise<boolean> {
    const rows = this.#sql.exec<WordRow>("SELECT * FROM session_message ORDER BY rowid").toArray();
    let heard = true;
    for (let at = 0; at < rows.length; at += AT_ONCE) {
      const told = await Promise.all(rows.slice(at, at + AT_ONCE).map((row) => this.#tell(row)));
      heard &&= told.every(Boolean);
    }
    return heard;
  }

  async #tell(row: WordRow): Promise<boolean> {
    const { session, kind, body } = row;
    try {
      await say(this.#session(session), { kind, body: JSON.parse(body) } as Word);
    } catch (error) {
      console.error("session not told", { session, kind, error: String(error) });
      return false;
    }
    this.#sql.exec(
      "DELETE FROM session_message WHERE session = ? AND kind = ? AND body = ?",
      session,
      kind,
      body,
    );
    return true;
  }
}

type WordRow = { session: string; kind: string; body: string };

async function say(session: DurableObjectStub<AcpSession>, word: Word): Promise<void> {
  switch (word.kind) {
    case "policy":
      return session.setPolicy(word.body);
    case "notices":
      return session.setWebhookTypes(word.body);
    case "lost":
      return session.hostLost(word.body);
    case "absent":
      return session.hostAbsent(word.body);
    case "drain":
      return session.hostDraining(word.body);
  }
}
