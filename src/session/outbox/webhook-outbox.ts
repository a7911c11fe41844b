import type { Deadlines } from "../../durable/deadlines.ts";
import { newId } from "../../durable/new-id.ts";
import { isReset, isUnavailable } from "../../durable/object-call.ts";
import type { Limits } from "../../protocol/limits.ts";
import type { HandedMessage, WebhookMessageType } from "../../protocol/webhook-messages.ts";
import type { LogEvent } from "../core/events/event.ts";
import { webhookMessagesFor } from "../core/read/webhook-message.ts";
import type { SessionState } from "../core/state/state.ts";

type Timers = Pick<Deadlines<"webhook-messages">, "setUnlessSet" | "clear">;

/** Hands messages to the session's workspace, which says the types that it wants from now on. */
type Notify = (
  state: SessionState,
  messages: HandedMessage[],
) => Promise<readonly WebhookMessageType[] | undefined>;

/** Takes note of a message that the workspace failed to take `tries` times. */
type NoteSkipped = (message: HandedMessage, tries: number) => void;

/**
 * Messages for the workspace's webhooks. A message is a row from the step that logs its event until the workspace has
 * the message. Nothing is written where no webhook wants anything.
 *
 * A message that the workspace fails to take again and again is skipped, so that the messages behind it go on.
 */
export class WebhookOutbox {
  readonly #ctx: DurableObjectState;
  readonly #limits: Limits;
  readonly #timers: Timers;
  readonly #notify: Notify;
  readonly #noteSkipped: NoteSkipped;
  /** False when the session was deleted. */
  readonly #isCurrent: (state: SessionState) => boolean;
  #wanted: readonly WebhookMessageType[];
  /** The message that the workspace failed to take last. */
  #tried: Tried | undefined;
  #handing: Promise<void> | undefined;

  constructor(
    ctx: DurableObjectState,
    limits: Limits,
    timers: Timers,
    notify: Notify,
    noteSkipped: NoteSkipped,
    isCurrent: (state: SessionState) => boolean,
  ) {
    this.#ctx = ctx;
    this.#limits = limits;
    this.#timers = timers;
    this.#notify = notify;
    this.#noteSkipped = noteSkipped;
    this.#isCurrent = isCurrent;
    this.#wanted = ctx.storage.kv.get<WebhookMessageType[]>(WANTED) ?? [];
    this.#tried = ctx.storage.kv.get<Tried>(TRIED);
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
    // The object may be evicted before the workspace answers, or the workspace may not answer.
    this.#timers.setUnlessSet("webhook-messages", Date.now() + this.#limits.webhookMessageRetryMs);
    this.#ctx.waitUntil(
      this.handOver(state).catch((error: unknown) =>
        console.error("webhook messages not handed over", {
          sessionId: state.sessionId,
          error: String(error),
        }),
      ),
    );
  }

  /**
   * Hands the messages to the workspace in order, or rejects: a deadline repeats the call. One call runs at a time, and
   * takes messages that arrive meanwhile.
   */
  handOver(state: SessionState): Promise<void> {
    this.#handing ??= this.#handAll(state).finally(() => {
      this.#handing = undefined;
    });
    return this.#handing;
  }

  /** After a failure the messages go in growing batches, the first message alone, until the one at fault comes first. */
  async #handAll(state: SessionState): Promise<void> {
    let size = this.#tried ? 1 : AT_ONCE;
    for (let rows = this.#rows(size); rows.length > 0; rows = this.#rows(size)) {
      const isTaken = await this.#hand(state, rows);
      if (!this.#isCurrent(state)) return;
      size = isTaken ? Math.min(2 * size, AT_ONCE) : 1;
    }
    this.#timers.clear("webhook-messages");
  }

  /** False: the workspace fails with these messages, and they are still to be handed over, or one of them is skipped. */
  async #hand(state: SessionState, rows: readonly Row[]): Promise<boolean> {
    try {
      const wanted = await this.#notify(
        state,
        rows.map(({ seq: _, ...message }) => message),
      );
      if (this.#isCurrent(state)) this.#taken(rows, wanted ?? []);
      return true;
    } catch (error) {
      if (!this.#isCurrent(state) || !mayBeAtFault(error)) throw error;
      if (rows.length === 1) await this.#blame(state, rows[0] as Row, error);
      return false;
    }
  }

  #taken(rows: readonly Row[], wanted: readonly WebhookMessageType[]): void {
    this.#ctx.storage.sql.exec("DELETE FROM webhook_message WHERE seq <= ?", rows.at(-1)?.seq ?? 0);
    this.#setTried(undefined);
    // The wanted types change with the placement; a session without a process learns of a change only here.
    this.want(wanted);
  }

  /**
   * Counts a try of a message that failed alone, and skips the message after too many. A workspace that fails without a
   * message as well is at fault itself, and nothing is counted.
   */
  async #blame(state: SessionState, row: Row, error: unknown): Promise<void> {
    await this.#notify(state, []);
    if (!this.#isCurrent(state)) return;
    const tries = (this.#tried?.id === row.id ? this.#tried.tries : 0) + 1;
    if (tries < this.#limits.itemTries) {
      this.#setTried({ id: row.id, tries });
      throw error;
    }
    this.#skip(row);
    this.#setTried(undefined);
    this.#noteSkipped(row, tries);
  }

  #skip({ seq, lost }: Row): void {
    const { sql } = this.#ctx.storage;
    sql.exec("DELETE FROM webhook_message WHERE seq = ?", seq);
    this.#countLost(lost + 1);
  }

  #setTried(tried: Tried | undefined): void {
    if (tried === this.#tried) return;
    this.#tried = tried;
    const { kv } = this.#ctx.storage;
    if (tried) kv.put(TRIED, tried);
    else kv.delete(TRIED);
  }

  #rows(count: number): Row[] {
    const { sql } = this.#ctx.storage;
    return sql.exec<Row>("SELECT * FROM webhook_message ORDER BY seq LIMIT ?", count).toArray();
  }

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
    this.#countLost(dropped.reduce((sum, row) => sum + row.lost, 0));
  }

  /** The next message that is kept carries the number of messages lost before it. */
  #countLost(lost: number): void {
    this.#ctx.storage.sql.exec(
      "UPDATE webhook_message SET lost = lost + ? WHERE seq = (SELECT MIN(seq) FROM webhook_message)",
      lost,
    );
  }
}

type Row = HandedMessage & { seq: number };

/** Tries of one message, each of which failed. */
type Tried = { id: string; tries: number };

/**
 * Whether the messages of the call may have caused the error. A message that ends the workspace's object looks like a
 * reset. A workspace that is overloaded, silent or out of reach has not failed with the messages.
 */
function mayBeAtFault(error: unknown): boolean {
  return isReset(error) || !isUnavailable(error);
}

/** Messages in one call. */
const AT_ONCE = 20;

/** The stored name comes from earlier builds. */
const WANTED = "notices";

const TRIED = "webhook-message-tries";
