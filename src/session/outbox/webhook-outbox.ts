import type { Deadlines } from "../../durable/deadlines.ts";
import { newId } from "../../durable/new-id.ts";
import type { Limits } from "../../protocol/limits.ts";
import type { HandedMessage, WebhookMessageType } from "../../protocol/webhook-messages.ts";
import type { LogEvent } from "../core/events/event.ts";
import { webhookMessagesFor } from "../core/read/webhook-message.ts";
import type { SessionState } from "../core/state/state.ts";

type Timers = Pick<Deadlines<"webhook-messages">, "set" | "setUnlessSet" | "clear">;

/** The workspace, as the outbox sees it: it takes messages and says which types it wants from now on. */
type Workspace = { notify(messages: HandedMessage[]): Promise<WebhookMessageType[]> };

/**
 * Messages for the workspace's webhooks. A message is a row from the step that logs its event until the workspace has
 * the message. Nothing is written where no webhook wants anything.
 */
export class WebhookOutbox {
  readonly #ctx: DurableObjectState;
  readonly #limits: Limits;
  readonly #timers: Timers;
  readonly #workspaceOf: (state: SessionState) => Workspace | undefined;
  /** False when the session was deleted. */
  readonly #isCurrent: (state: SessionState) => boolean;
  #wanted: readonly WebhookMessageType[];
  #handing = false;

  constructor(
    ctx: DurableObjectState,
    limits: Limits,
    timers: Timers,
    workspaceOf: (state: SessionState) => Workspace | undefined,
    isCurrent: (state: SessionState) => boolean,
  ) {
    this.#ctx = ctx;
    this.#limits = limits;
    this.#timers = timers;
    this.#workspaceOf = workspaceOf;
    this.#isCurrent = isCurrent;
    this.#wanted = ctx.storage.kv.get<WebhookMessageType[]>(WANTED) ?? [];
  }

  /** The types of message that the workspace's webhooks want from now on. */
  want(types: readonly WebhookMessageType[]): void {
    if (types.join() === this.#wanted.join()) return;
    this.#wanted = types;
    if (types.length > 0) this.#ctx.storage.kv.put(WANTED, types);
    else this.#ctx.storage.kv.delete(WANTED);
  }

  /** Has to be called in the step that logs the events, so that both are written or neither is. */
  collect(state: SessionState, events: readonly LogEvent[]): void {
    if (this.#wanted.length === 0) return;
    const found = webhookMessagesFor(state, events, this.#wanted, this.#limits.answerLinks);
    if (found.length === 0) return;
    const { sql } = this.#ctx.storage;
    for (const { seq, message } of found)
      sql.exec(
        "INSERT INTO webhook_message (seq, id, type, body) VALUES (?, ?, ?, ?)",
        ...[seq, newId("msg"), message.type, JSON.stringify(message)],
      );
    this.#dropOldest();
    this.#ctx.waitUntil(this.handOver(state));
  }

  /** Hands the messages to the workspace in order. One call runs at a time, and takes messages that arrive meanwhile. */
  async handOver(state: SessionState): Promise<void> {
    // The object may be evicted before the workspace answers, or the workspace may not answer.
    this.#timers.setUnlessSet("webhook-messages", Date.now() + this.#limits.webhookMessageRetryMs);
    if (this.#handing) return;
    this.#handing = true;
    try {
      for (let rows = this.#rows(); rows.length > 0; rows = this.#rows()) {
        const wanted = await this.#workspaceOf(state)?.notify(rows.map(({ seq: _, ...message }) => message));
        if (!this.#isCurrent(state)) return;
        this.#ctx.storage.sql.exec("DELETE FROM webhook_message WHERE seq <= ?", rows.at(-1)?.seq ?? 0);
        // The wanted types change with the placement; a session without a process learns of a change only here.
        this.want(wanted ?? []);
      }
      this.#timers.clear("webhook-messages");
    } catch (error) {
      console.error("webhook messages not handed over", { sessionId: state.sessionId, error: String(error) });
      if (this.#isCurrent(state))
        this.#timers.set("webhook-messages", Date.now() + this.#limits.webhookMessageRetryMs);
    } finally {
      this.#handing = false;
    }
  }

  #rows(): Row[] {
    const { sql } = this.#ctx.storage;
    return sql.exec<Row>("SELECT * FROM webhook_message ORDER BY seq LIMIT ?", AT_ONCE).toArray();
  }

  /** The next message that is kept carries the number of messages dropped before it. */
  #dropOldest(): void {
    const { sql } = this.#ctx.storage;
    const dropped = sql
      .exec<{ lost: number }>(
        `DELETE FROM webhook_message WHERE seq IN (SELECT seq FROM webhook_message ORDER BY seq DESC LIMIT -1 OFFSET ?)
         RETURNING lost + 1 AS lost`,
        this.#limits.webhookMessagesPerSession,
      )
      .toArray();
    if (dropped.length === 0) return;
    const lost = dropped.reduce((sum, row) => sum + row.lost, 0);
    sql.exec(
      "UPDATE webhook_message SET lost = lost + ? WHERE seq = (SELECT MIN(seq) FROM webhook_message)",
      lost,
    );
  }
}

type Row = HandedMessage & { seq: number };

/** Messages in one call. */
const AT_ONCE = 20;

/** The stored name comes from earlier builds. */
const WANTED = "notices";
