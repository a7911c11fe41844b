import { type Caller, mayUseWorkspace } from "../protocol/caller.ts";
import type { SessionList, SessionSummary } from "../protocol/rest.ts";
import type { ArchiveFilter } from "../protocol/session-change.ts";
import { type CallersTable, readCallersPage, type Selection } from "./callers-page.ts";
import { type KeysetPage, pageQuery, type Run } from "./keyset-page.ts";
import { replacePermissions } from "./permission-index.ts";
import { replaceQuestions } from "./question-index.ts";
import { runner } from "./runner.ts";
import { type UsageEntry, writeUsage } from "./usage-index.ts";

/** The row of a session in the D1 table `sessions`. Its AcpSession object writes it. */
export type SessionRow = SessionSummary & { tenant: string };

/** A session's row, its pending permission requests and questions, each as a JSON array, and what it has used lately. */
export type SessionIndexEntry = SessionRow & {
  permissions: string;
  questions: string;
  usage: readonly UsageEntry[];
};

const COLUMNS: Readonly<Record<keyof SessionRow, string>> = {
  sessionId: "id",
  tenant: "tenant",
  workspace: "workspace",
  agent: "agent",
  cwd: "cwd",
  clientCwd: "client_cwd",
  title: "title",
  archived: "archived",
  state: "state",
  createdAt: "created_at",
  updatedAt: "updated_at",
  lastSeq: "last_seq",
};
const FIELDS = Object.keys(COLUMNS) as (keyof SessionRow)[];

const { tenant: _, ...SHOWN } = COLUMNS;
const SUMMARIES: CallersTable<SessionSummary> = {
  workspace: "workspace",
  name: "sessions",
  columns: SHOWN,
  order: [
    ["updatedAt", String],
    ["sessionId", String],
  ],
  direction: "DESC",
};

/** A page of the caller's sessions, newest first. */
export async function listSessions(
  index: D1Database,
  caller: Caller,
  limit: number,
  { cursor, cwd, archived = "exclude" }: SessionFilter = {},
): Promise<SessionList> {
  const run = runner(index);
  const selected = selectionOf(archived, cwd);
  const { rows, nextCursor } =
    caller.session === undefined
      ? await readCallersPage(run, SUMMARIES, caller, limit, cursor, selected)
      : await sharedSession(run, caller, caller.session);
  const sessions = rows.map((row) => ({ ...row, archived: Boolean(row.archived) }));
  return { sessions: caller.redacted ? sessions.map(withoutDirectories) : sessions, nextCursor };
}

type SessionFilter = {
  readonly cursor?: string | undefined;
  readonly cwd?: string | undefined;
  readonly archived?: ArchiveFilter | undefined;
};

/** Archived sessions, others or both; perhaps of a directory only, by the client's name of it or by the host's. */
function selectionOf(archived: ArchiveFilter, cwd?: string): Selection<SessionSummary> | undefined {
  if (archived === "include" && cwd === undefined) return undefined;
  const kept =
    archived === "include" ? [] : [{ where: "archived = ?", values: [archived === "only" ? 1 : 0] }];
  const isKept = (row: SessionSummary) =>
    archived === "include" || Boolean(row.archived) === (archived === "only");
  if (cwd === undefined) return { sections: [kept], isOrdered: true, isWanted: isKept };
  return {
    sections: [
      [...kept, { where: "client_cwd = ?", values: [cwd] }],
      [...kept, { where: "cwd = ? AND cwd <> client_cwd", values: [cwd] }],
    ],
    isWanted: (row) => isKept(row) && (row.clientCwd === cwd || row.cwd === cwd),
  };
}

/** The bearer of a share link sees one session, archived or not. */
async function sharedSession(run: Run, caller: Caller, id: string): Promise<KeysetPage<SessionSummary>> {
  const filters = [{ where: "tenant = ? AND id = ?", values: [caller.tenant, id] }];
  const rows = await run<SessionSummary>(pageQuery(SUMMARIES, filters, 1, undefined));
  return { rows: rows.filter((row) => mayUseWorkspace(caller, row.workspace)), nextCursor: null };
}

/** Readers of a redacted link learn no directories. ACP demands an absolute path. */
function withoutDirectories(session: SessionSummary): SessionSummary {
  return { ...session, cwd: "/", clientCwd: "/" };
}

/** Writes may overtake each other. The write that has seen more of the log wins. */
export async function writeSession(index: D1Database, entry: SessionIndexEntry): Promise<void> {
  await index.batch([upsert(index, entry), ...writeRest(index, entry)]);
}

/** Writes the row whatever the index has. No other write of the session may be under way. */
export async function rewriteSession(index: D1Database, entry: SessionIndexEntry): Promise<void> {
  const remove = index
    .prepare("DELETE FROM sessions WHERE tenant = ? AND id = ?")
    .bind(entry.tenant, entry.sessionId);
  await index.batch([remove, upsert(index, entry), ...writeRest(index, entry)]);
}

function writeRest(index: D1Database, entry: SessionIndexEntry): D1PreparedStatement[] {
  return [
    ...replacePermissions(index, entry),
    ...replaceQuestions(index, entry),
    ...writeUsage(index, entry.usage),
  ];
}

function upsert(index: D1Database, row: SessionRow): D1PreparedStatement {
  return index
    .prepare(
      `INSERT INTO sessions (${Object.values(COLUMNS).join(", ")})
       VALUES (${FIELDS.map(() => "?").join(", ")})
       ON CONFLICT (tenant, id) DO UPDATE SET cwd = excluded.cwd, title = excluded.title, state = excluded.state,
         archived = excluded.archived,
         updated_at = excluded.updated_at, last_seq = excluded.last_seq
       WHERE excluded.last_seq > sessions.last_seq`,
    )
    .bind(...FIELDS.map((field) => (field === "archived" ? Number(row.archived) : row[field])));
}

export async function removeSession(
  index: D1Database,
  { tenant, sessionId }: Pick<SessionRow, "tenant" | "sessionId">,
): Promise<void> {
  await index.batch([
    index.prepare("DELETE FROM sessions WHERE tenant = ? AND id = ?").bind(tenant, sessionId),
    index.prepare("DELETE FROM permissions WHERE tenant = ? AND session = ?").bind(tenant, sessionId),
    index.prepare("DELETE FROM questions WHERE tenant = ? AND session = ?").bind(tenant, sessionId),
  ]);
}
