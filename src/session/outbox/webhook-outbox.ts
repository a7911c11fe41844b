import type { Deadlines } from "../../durable/deadlines.ts";
import { newId } from "../../durable/new-id.ts";
import type { Limits } from "../../protocol/limits.ts";
import type { HandedNotice, NoticeType } from "../../protocol/webhook-messages.ts";
import type { WorkspaceState } from "../../workspace/workspace-state.ts";
import type { LogEvent } from "../core/events/event.ts";
import { noticesOf } from "../core/read/webhook-message.ts";
import type { SessionState } from "../core/state/state.ts";

type Clock = Pick<Deadlines<"notices">, "set" | "setUnlessSet" | "clear">;
type Workspace = Pick<DurableObjectStub<WorkspaceState>, "notify">;

/**
 * What the session has to tell its workspace's webhooks. A notice is a row from the step on in which its event is
 * logged until the workspace has it. Where nothing is wanted, nothing is written.
 */
export class Notices {
  readonly #ctx: DurableObjectState;
  readonly #limits: Limits;
  readonly #clock: Clock;
  readonly #workspaceOf: (state: SessionState) => Workspace | undefined;
  /** False: the session was deleted. */
  readonly #isCurrent: (state: SessionState) => boolean;
  #wanted: readonly NoticeType[];
  #handing = false;

  constructor(
    ctx: DurableObjectState,
    limits: Limits,
    clock: Clock,
    workspaceOf: (state: SessionState) => Workspace | undefined,
    isCurrent: (state: SessionState) => boolean,
  ) {
    this.#ctx = ctx;
    this.#limits = limits;
    this.#clock = clock;
    this.#workspaceOf = workspaceOf;
    this.#isCurrent = isCurrent;
    this.#wanted = ctx.storage.kv.get<NoticeType[]>(WANTED) ?? [];
  }

  /** What the workspace's webhooks want to hear of, from now on. */
  want(types: readonly NoticeType[]): void {
    if (types.join() === this.#wanted.join()) return;
    this.#wanted = types;
    if (types.length > 0) this.#ctx.storage.kv.put(WANTED, types);
    else this.#ctx.storage.kv.delete(WANTED);
  }

  /** Call it in the step in which the events were logged. */
  note(state: SessionState, events: readonly LogEvent[]): void {
    if (this.#wanted.length === 0) return;
    const found = noticesOf(state, events, this.#wanted, this.#limits.answerLinks);
    if (found.length === 0) return;
    const { sql } = this.#ctx.storage;
    for (const { seq, notice } of found)
      sql.exec(
        "INSERT INTO webhook_message (seq, id, type, body) VALUES (?, ?, ?, ?)",
        ...[seq, newId("msg"), notice.type, JSON.stringify(notice)],
      );
    this.#dropOldest();
    this.#ctx.waitUntil(this.handOver(state));
  }

  /** Gives the workspace what it has not, in order; one call at a time takes what comes meanwhile. */
  async handOver(state: SessionState): Promise<void> {
    // Should the object not live to do so, or the workspace not answer.
    this.#clock.setUnlessSet("notices", Date.now() + this.#limits.noticeRetryMs);
    if (this.#handing) return;
    this.#handing = true;
    try {
      for (let rows = this.#rows(); rows.length > 0; rows = this.#rows()) {
        const wanted = await this.#workspaceOf(state)?.notify(rows.map(({ seq: _, ...notice }) => notice));
        if (!this.#isCurrent(state)) return;
        this.#ctx.storage.sql.exec("DELETE FROM webhook_message WHERE seq <= ?", rows.at(-1)?.seq ?? 0);
        // Nobody was told to stop who had no process at the time.
        this.want(wanted ?? []);
      }
      this.#clock.clear("notices");
    } catch (error) {
      console.error("notices not handed over", { sessionId: state.sessionId, error: String(error) });
      if (this.#isCurrent(state)) this.#clock.set("notices", Date.now() + this.#limits.noticeRetryMs);
    } finally {
      this.#handing = false;
    }
  }

  #rows(): Row[] {
    const { sql } = this.#ctx.storage;
    return sql.exec<Row>("SELECT * FROM webhook_message ORDER BY seq LIMIT ?", AT_ONCE).toArray();
  }

  /** Of what is lost, the number is told with the next one that is not. */
  #dropOldest(): void {
    const { sql } = this.#ctx.storage;
    const dropped = sql
      .exec<{ lost: number }>(
        `DELETE FROM webhook_message WHERE seq IN (SELECT seq FROM webhook_message ORDER BY seq DESC LIMIT -1 OFFSET ?)
         RETURNING lost + 1 AS lost`,
        this.#limits.noticesPerSession,
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

type Row = HandedNotice & { seq: number };

/** Notices in one call. */
const AT_ONCE = 20;

const WANTED = "notices";
