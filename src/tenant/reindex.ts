import type { Deadlines } from "../durable/deadlines.ts";
import { NameList } from "../durable/name-list.ts";
import { newId } from "../durable/new-id.ts";
import { callObject } from "../durable/object-call.ts";
import { workspaceObject } from "../durable/objects.ts";
import { indexedWorkspaces, workspacesWithSessions } from "../index/reindex-source.ts";
import { isoTime } from "../protocol/iso-time.ts";
import { NEVER_REINDEXED, type ReindexProgress } from "../protocol/reindex.ts";

type Stage = "workspaces-in-index" | "sessions-in-index" | "visits";

type StoredProgress = ReindexProgress & {
  order: string;
  stage: Stage;
  after: string | null;
  /** The workspaces that are at work, each with the number of calls that failed. */
  active: Record<string, number>;
  /** The pause before the next round, which grows while no workspace ends. */
  pauseMs?: number;
  /** When the counts moved last, and their sum then. Orders of the release before have neither. */
  movedAt?: number;
  sum?: number;
};

type Parts = {
  env: Env;
  kv: SyncKvStorage;
  tenant: () => string;
  deadlines: Pick<Deadlines<"reindex">, "set">;
};

/** Has the workspaces of a tenant write their index anew, a few at a time. The tenant keeps their names for it. */
export class TenantReindex {
  readonly #parts: Parts;
  readonly #workspaces: NameList;

  constructor(parts: Parts) {
    this.#parts = parts;
    this.#workspaces = new NameList(parts.kv, "workspace:");
  }

  enroll(workspace: string): void {
    this.#workspaces.add(workspace);
  }

  get progress(): ReindexProgress {
    const stored = this.#stored();
    if (!stored) return { ...NEVER_REINDEXED, workspaces: 0 };
    const { state, startedAt, finishedAt, sessions, removed, failed, workspaces } = stored;
    return { state, startedAt, finishedAt, sessions, removed, failed, workspaces };
  }

  /** Begins unless an order is at work that makes progress. */
  start(): ReindexProgress {
    const before = this.#stored();
    const isAtWork = before?.state === "running" && Date.now() - (before.movedAt ?? 0) < STUCK_MS;
    if (!isAtWork) {
      this.#save({
        ...{ ...NEVER_REINDEXED, state: "running", startedAt: isoTime(Date.now()), workspaces: 0 },
        ...{ order: newId("rix"), stage: "workspaces-in-index", after: null, active: {} },
        movedAt: Date.now(),
      });
      this.#parts.deadlines.set("reindex", Date.now());
    }
    return this.progress;
  }

  /** Does one step of the work. */
  async proceed(): Promise<void> {
    const progress = this.#stored();
    if (progress?.state !== "running") return;
    if (progress.stage === "visits") await this.#visit(progress);
    else await this.#learn(progress);
    const after = this.#stored();
    if (after?.state !== "running") return;
    const isWaiting = after.stage === "visits" && Object.keys(after.active).length > 0;
    const pause = isWaiting ? (after.pauseMs ?? FIRST_PAUSE_MS) : 0;
    this.#parts.deadlines.set("reindex", Date.now() + pause);
  }

  /** Learns the names of workspaces that only the index has. */
  async #learn(progress: StoredProgress): Promise<void> {
    const isFirst = progress.stage === "workspaces-in-index";
    const read = isFirst ? indexedWorkspaces : workspacesWithSessions;
    const { names, next } = await read(this.#parts.env.INDEX, this.#parts.tenant(), progress.after);
    for (const name of names) this.#workspaces.add(name);
    const nextStage = isFirst ? "sessions-in-index" : "visits";
    const stage = next === null ? nextStage : progress.stage;
    this.#save({ ...progress, after: next, stage, movedAt: Date.now() });
  }

  /** Asks the workspaces that are at work how far they are, and has the next ones begin. */
  async #visit(progress: StoredProgress): Promise<void> {
    const free = AT_ONCE - Object.keys(progress.active).length;
    const added = free > 0 ? this.#workspaces.page(progress.after, free) : [];
    const active = { ...progress.active, ...Object.fromEntries(added.map((name) => [name, 0])) };
    const next = { ...progress, after: added.at(-1) ?? progress.after };
    let sum = 0;
    await Promise.all(
      Object.entries(active).map(async ([name, failures]) => {
        const result = await this.#ask(name, progress.order);
        if (result === undefined && failures + 1 < TRIES) {
          active[name] = failures + 1;
          return;
        }
        if (result?.state === "running") {
          sum += result.sessions + result.removed + result.failed;
          return;
        }
        delete active[name];
        next.workspaces = (next.workspaces ?? 0) + 1;
        next.sessions += result?.sessions ?? 0;
        next.removed += result?.removed ?? 0;
        next.failed += result?.failed ?? 1;
      }),
    );
    const isLast = Object.keys(active).length === 0 && added.length < free;
    const end = isLast ? { state: "finished" as const, finishedAt: isoTime(Date.now()) } : {};
    sum += next.sessions + next.removed + next.failed + (next.workspaces ?? 0);
    const hasEnded = added.length > 0 || next.workspaces !== progress.workspaces;
    const pauseMs = hasEnded ? FIRST_PAUSE_MS : longerPause(progress.pauseMs ?? FIRST_PAUSE_MS);
    const movedAt = hasEnded || sum !== progress.sum ? Date.now() : (progress.movedAt ?? Date.now());
    // Another order may have taken the place of this one meanwhile.
    if (this.#stored()?.order === progress.order)
      this.#save({ ...next, active, pauseMs, sum, movedAt, ...end });
  }

  /** Undefined: the workspace could not be reached. */
  async #ask(workspace: string, order: string): Promise<ReindexProgress | undefined> {
    const { env, tenant } = this.#parts;
    try {
      const progress = await callObject(
        () => workspaceObject(env, tenant(), workspace),
        (object) => object.reindexFor({ tenant: tenant(), workspace }, order),
      );
      return progress ?? { ...NEVER_REINDEXED, state: "finished" };
    } catch (error) {
      console.error("workspace not reindexed", { tenant: tenant(), workspace, error: String(error) });
      return undefined;
    }
  }

  #stored(): StoredProgress | undefined {
    return this.#parts.kv.get<StoredProgress>(PROGRESS);
  }

  #save(progress: StoredProgress): void {
    this.#parts.kv.put(PROGRESS, progress);
  }
}

function longerPause(ms: number): number {
  return Math.min(ms * 1.5, LONGEST_PAUSE_MS);
}

const PROGRESS = "reindex";
/** Workspaces that are at work at the same time. */
const AT_ONCE = 10;
/** Pauses between the rounds of calls to the workspaces that are at work. */
const FIRST_PAUSE_MS = 500;
const LONGEST_PAUSE_MS = 30_000;
/** An order that has not moved for so long gives way to a new one. */
const STUCK_MS = 10 * 60_000;
/** A workspace that could not be reached so often counts as failed. */
const TRIES = 20;
