import type { Caller } from "../protocol/caller.ts";
import type { SessionList, SessionSummary } from "../protocol/rest.ts";
import { ofCallersSessions } from "./caller-filter.ts";
import { type KeysetTable, readPage } from "./keyset-page.ts";
import { replacePermissions } from "./permission-index.ts";

/** The row of a session in the D1 table `sessions`. Its AcpSession object writes it. */
export type SessionRow = SessionSummary & { tenant: string };

/** A session's row, and its pending permissions as a JSON array. */
export type SessionIndexEntry = SessionRow & { permissions: string };

const COLUMNS: Readonly<Record<keyof SessionRow, string>> = {
  sessionId: "id",
  tenant: "tenant",
  workspace: "workspace",
  agent: "agent",
  cwd: "cwd",
  clientCwd: "client_cwd",
  title: "title",
  state: "state",
  createdAt: "created_at",
  updatedAt: "updated_at",
  lastSeq: "last_seq",
};
const FIELDS = Object.keys(COLUMNS) as (keyof SessionRow)[];

const { tenant: _, ...SHOWN } = COLUMNS;
const SUMMARIES: KeysetTable<SessionSummary> = {
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
  { cursor, cwd }: { cursor?: string | undefined; cwd?: string | undefined } = {},
): Promise<SessionList> {
  const mine = ofCallersSessions(caller, "id");
  const filters =
    cwd === undefined ? mine : [...mine, { where: "(client_cwd = ? OR cwd = ?)", values: [cwd, cwd] }];
  const { rows, nextCursor } = await readPage(index, SUMMARIES, filters, limit, cursor);
  return { sessions: rows, nextCursor };
}

/** Writes may overtake each other. The write that has seen more of the log wins. */
export async function writeSession(index: D1Database, entry: SessionIndexEntry): Promise<void> {
  await index.batch([upsert(index, entry), ...replacePermissions(index, entry)]);
}

function upsert(index: D1Database, row: SessionRow): D1PreparedStatement {
  return index
    .prepare(
      `INSERT INTO sessions (${Object.values(COLUMNS).join(", ")})
       VALUES (${FIELDS.map(() => "?").join(", ")})
       ON CONFLICT (tenant, id) DO UPDATE SET cwd = excluded.cwd, title = excluded.title, state = excluded.state,
         updated_at = excluded.updated_at, last_seq = excluded.last_seq
       WHERE excluded.last_seq > sessions.last_seq`,
    )
    .bind(...FIELDS.map((field) => row[field]));
}

export async function removeSession(
  index: D1Database,
  { tenant, sessionId }: Pick<SessionRow, "tenant" | "sessionId">,
): Promise<void> {
  await index.batch([
    index.prepare("DELETE FROM sessions WHERE tenant = ? AND id = ?").bind(tenant, sessionId),
    index.prepare("DELETE FROM permissions WHERE tenant = ? AND session = ?").bind(tenant, sessionId),
  ]);
}
