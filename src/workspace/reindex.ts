import type { Deadlines } from "../durable/deadlines.ts";
import type { NameList } from "../durable/name-list.ts";
import { indexedSessions, type NamePage, sessionsWithRequests } from "../index/reindex-source.ts";
import { removeSession } from "../index/session-index.ts";
import { isoTime } from "../protocol/iso-time.ts";
import { NEVER_REINDEXED, type ReindexedSession, type ReindexProgress } from "../protocol/reindex.ts";
import type { WorkspaceIdentity, WorkspaceStore } from "./store.ts";

/** First the workspace learns of every session that the index lists, then it visits every session it knows of. */
type Stage = "sessions-in-index" | "permissions-in-index" | "visits";

type StoredProgress = ReindexProgress & {
  order: string;
  stage: Stage;
  after: string | null;
  /** Failed tries of the current page; absent before the first one. */
  tries?: number;
};

type Parts = {
  index: D1Database;
  store: WorkspaceStore;
  sessions: NameList;
  timers: Pick<Deadlines<"reindex">, "set">;
  /** Asks a session to write its row. */
  visit: (sessionId: string, workspace: string) => Promise<ReindexedSession>;
  /** Writes the workspace's own row. */
  writeOwnRow: () => Promise<void>;
};

/**
 * Writes the index of a workspace anew from the sessions themselves, also after the index was lost. Each run of the
 * deadline does one page, so the work survives evictions, and repeating a page does no harm.
 */
export class WorkspaceReindex {
  readonly #parts: Parts;

  constructor(parts: Parts) {
    this.#parts = parts;
  }

  get progress(): ReindexProgress {
    const stored = this.#stored();
    if (!stored) return NEVER_REINDEXED;
    const { order: _, stage: __, after: ___, tries: ____, ...progress } = stored;
    return progress;
  }

  /**
   * Begins, unless the order has been given before or its predecessor makes progress. Null: no such workspace.
   */
  async start(identity: WorkspaceIdentity, order: string): Promise<ReindexProgress | null> {
    const { index, store, timers } = this.#parts;
    if (!store.exists) {
      // A workspace from before may have imported sessions only, of which the index knows.
      if ((await indexedSessions(index, identity, null)).names.length === 0) return null;
      store.create(identity);
    }
    const before = this.#stored();
    const isAtWork = before?.state === "running" && before.tries === undefined;
    if (before?.order !== order && !isAtWork) {
      this.#save({
        ...NEVER_REINDEXED,
        ...{
          state: "running",
          startedAt: isoTime(Date.now()),
          order,
          stage: "sessions-in-index",
          after: null,
        },
      });
      timers.set("reindex", Date.now());
    }
    return this.progress;
  }

  /** Does one page of the work. A page that fails is counted, and tried again by the deadline with growing pauses. */
  async proceed(): Promise<void> {
    const progress = this.#stored();
    const identity = this.#parts.store.identity();
    if (progress?.state !== "running" || !identity) return;
    try {
      await this.#doPage(progress, identity);
    } catch (error) {
      this.#advance({ ...progress, tries: triesOf(progress) + 1 });
      throw error;
    }
    if (this.#stored()?.state === "running") this.#parts.timers.set("reindex", Date.now());
  }

  #doPage(progress: StoredProgress, identity: WorkspaceIdentity): Promise<void> {
    const { after } = progress;
    switch (progress.stage) {
      case "sessions-in-index":
        return this.#learn(
          progress,
          (index) => indexedSessions(index, identity, after),
          "permissions-in-index",
        );
      case "permissions-in-index":
        return this.#learn(progress, (index) => sessionsWithRequests(index, identity, after), "visits");
      case "visits":
        return this.#visitPage(progress, identity);
    }
  }

  async #learn(
    progress: StoredProgress,
    read: (index: D1Database) => Promise<NamePage>,
    nextStage: Stage,
  ): Promise<void> {
    const { names, next } = await read(this.#parts.index);
    for (const name of names) this.#parts.sessions.add(name);
    this.#advance(done(progress, { after: next, stage: next === null ? nextStage : progress.stage }));
  }

  async #visitPage(progress: StoredProgress, identity: WorkspaceIdentity): Promise<void> {
    const { sessions, writeOwnRow } = this.#parts;
    const page = sessions.page(progress.after, AT_ONCE);
    const results = await Promise.all(page.map((id) => this.#visit(id, identity)));
    const failed = results.filter((result) => result === "failed").length;
    const isLastTry = triesOf(progress) + 1 >= TRIES;
    // The index may be out of reach, or these sessions are. Sessions that stay unreadable hold up no others.
    if (page.length > 0 && failed === page.length && !isLastTry)
      throw new Error(`${failed} sessions not reindexed`);
    const isLast = page.length < AT_ONCE;
    if (isLast) await writeOwnRow();
    this.#advance(
      done(progress, {
        sessions: progress.sessions + results.filter((result) => result === "written").length,
        removed: progress.removed + results.filter((result) => result === "gone").length,
        failed: progress.failed + failed,
        after: page.at(-1) ?? progress.after,
        ...(isLast && { state: "finished", finishedAt: isoTime(Date.now()) }),
      }),
    );
  }

  async #visit(
    sessionId: string,
    { tenant, workspace }: WorkspaceIdentity,
  ): Promise<ReindexedSession | "failed"> {
    const { index, sessions, visit } = this.#parts;
    try {
      let result = await visit(sessionId, workspace);
      if (result === "gone") {
        await removeSession(index, { tenant, sessionId });
        // An import may have written its row meanwhile: then the session writes it again.
        result = await visit(sessionId, workspace);
      }
      if (result !== "written") sessions.remove(sessionId);
      return result;
    } catch (error) {
      console.error("session not reindexed", { sessionId, error: String(error) });
      return "failed";
    }
  }

  #stored(): StoredProgress | undefined {
    return this.#parts.store.get<StoredProgress>(PROGRESS);
  }

  /** Another order may have taken the place of this one during a page. */
  #advance(progress: StoredProgress): void {
    if (this.#stored()?.order === progress.order) this.#save(progress);
  }

  #save(progress: StoredProgress): void {
    this.#parts.store.set(PROGRESS, progress);
  }
}

/** The progress after a page that was done. */
function done({ tries: _, ...progress }: StoredProgress, change: Partial<StoredProgress>): StoredProgress {
  return { ...progress, ...change };
}

function triesOf({ tries = 0 }: StoredProgress): number {
  return tries;
}

const PROGRESS = "reindex";
/** Sessions that are called at the same time. */
const AT_ONCE = 20;
/** The sessions of a page of which none could be reached so often count as failed. The tries take about four minutes. */
const TRIES = 8;
