import { Deadlines } from "../durable/deadlines.ts";
import type { Tables } from "../durable/schema.ts";
import { LIMITS } from "../protocol/limits.ts";
import type { Access } from "./access.ts";
import type { Batch } from "./core/decide/batch.ts";
import { ioClientGone } from "./core/decide/client-files.ts";
import type { LogEvent } from "./core/events/event.ts";
import type { SessionState } from "./core/state/state.ts";
import { FollowUp, type SessionDeadline } from "./effects.ts";
import { Hidden } from "./log/concealed-values.ts";
import { Archive } from "./log/history-archive.ts";
import { Journal } from "./log/journal.ts";
import { IndexWriter } from "./outbox/index-writer.ts";
import { Notices } from "./outbox/webhook-outbox.ts";
import { Clients } from "./readers/clients.ts";
import { HostLink } from "./readers/host-link.ts";
import { Watchers } from "./readers/log-watchers.ts";

/**
 * A session that somebody has to do with: the log, and everyone who reads it. Every input becomes events, the events
 * are written, and only then do the readers (the agent's link and each client's cursor) go on. Everything in memory
 * is rebuilt from storage and socket attachments.
 */
export class LiveSession {
  readonly journal: Journal;
  readonly archive: Archive;
  readonly clients: Clients;
  readonly hidden: Hidden;
  readonly link: HostLink;
  readonly watchers: Watchers;
  readonly deadlines: Deadlines<SessionDeadline>;
  readonly index: IndexWriter;
  readonly notices: Notices;
  readonly followUp: FollowUp;
  readonly #ctx: DurableObjectState;
  readonly #access: Access;
  readonly #tables: Tables;
  /** Until then the state is not what the log says. */
  readonly whole: Promise<void> | undefined;
  #over = false;

  constructor(ctx: DurableObjectState, env: Env, access: Access, tables: Tables) {
    this.#ctx = ctx;
    this.#tables = tables;
    this.#access = access;
    const { sql } = ctx.storage;
    this.journal = new Journal(sql, tables);
    this.archive = new Archive(env.ARCHIVE, this.journal);
    this.clients = new Clients(
      sql,
      this.journal,
      this.archive,
      (connection) => env.ACP_CONNECTION_DO.getByName(connection),
      (connection) => this.record((batch) => ioClientGone(batch, connection)),
    );
    this.hidden = new Hidden(sql);
    this.link = new HostLink(ctx, this.journal, this.hidden);
    this.watchers = new Watchers(ctx, this.journal, this.archive);
    this.deadlines = new Deadlines(ctx.storage);
    this.index = new IndexWriter(
      env.INDEX,
      (state) => this.journal.state === state && !access.isRevoked,
      () => this.deadlines.setUnlessSet("index", Date.now() + LIMITS.indexRetryMs),
    );
    this.followUp = new FollowUp(ctx, env, this);
    this.notices = new Notices(
      ctx,
      this.deadlines,
      (state) => this.followUp.workspaceOf(state),
      (state) => this.journal.state === state,
    );
    if (!this.journal.catchUp()) this.whole = this.#replayArchive();
  }

  /** There is no snapshot to start from, and the log's beginning is in the archive. */
  async #replayArchive(): Promise<void> {
    while (!this.journal.catchUp()) await this.archive.reach(this.journal.state?.lastSeq ?? 0);
  }

  /** It was deleted, and is of no use any more. */
  get isOver(): boolean {
    return this.#over;
  }

  get state(): SessionState {
    if (!this.journal.state) throw new Error("There is no session here");
    return this.journal.state;
  }

  create(sessionId: string): void {
    this.#tables.create();
    this.journal.create(sessionId);
  }

  /** Makes a session of a log that was written beforehand and folds to the given state. */
  adopt(state: SessionState): void {
    this.journal.adopt(state);
  }

  /** Writes what is decided, then lets everyone read on. Output gates hold all of it until it is durable. */
  record(decide: (batch: Batch) => void): void {
    let events: readonly LogEvent[];
    try {
      events = this.journal.record(decide);
    } catch (error) {
      // Memory is ahead of the log: only a fresh start from storage is safe.
      console.error("session failed", { error: String(error) });
      this.#ctx.abort("The session could not record what happened");
      throw error;
    }
    if (events.length === 0) return;
    this.#followOwner();
    this.followUp.after(this.state, events);
    this.link.feed();
    this.clients.feed();
    this.watchers.feed();
    this.journal.trim(this.clients.slowest());
  }

  #followOwner(): void {
    const { identity, sessionId } = this.state;
    if (!identity || this.#access.owner) return;
    this.#access.belongsTo({ tenant: identity.tenant, workspace: identity.workspace, sessionId });
  }

  /** Ends the session for good: process, history and its line in the index. */
  async remove(): Promise<void> {
    const { state } = this;
    this.link.stop("deleted");
    this.watchers.dismiss("deleted");
    await this.archive.delete();
    this.#over = true;
    this.journal.forget();
    this.clients.forget();
    this.#access.forget();
    this.deadlines.forget();
    this.#tables.forget();
    await this.#ctx.storage.deleteAll();
    await this.index.remove(state);
    await this.followUp.workspaceOf(state)?.release(state.sessionId, state.lastSeq);
  }
}
