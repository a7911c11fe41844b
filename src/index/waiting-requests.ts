import { type Caller, mayUseWorkspace } from "../protocol/caller.ts";
import { clientRequestId } from "../protocol/ids.ts";
import { type CallersTable, readCallersPage } from "./callers-page.ts";
import { type KeysetPage, pageFrom, pageQuery, type Run, readCursor } from "./keyset-page.ts";
import { runner } from "./runner.ts";

/** Requests of agents that wait for a person: the D1 tables `permissions` and `questions`, which are read and written alike. */

/** The columns that both tables have. */
export type WaitingRow = { sessionId: string; seq: number; workspace: string; requestedAt: string };

/** A table of requests, oldest first. `own` are the columns that no other table has, by their fields. */
export function waitingTable<Own extends object>(
  name: "permissions" | "questions",
  own: Readonly<Record<keyof Own & string, string>>,
): CallersTable<WaitingRow & Own> {
  const columns = {
    sessionId: "session",
    seq: "seq",
    workspace: "workspace",
    requestedAt: "requested_at",
    ...own,
  };
  return {
    workspace: "workspace",
    name,
    columns: columns as Readonly<Record<keyof (WaitingRow & Own) & string, string>>,
    order: [
      ["requestedAt", String],
      ["sessionId", String],
      ["seq", Number],
    ],
    direction: "ASC",
  };
}

/** A page of the requests that wait in the caller's sessions, oldest first. */
export async function listWaiting<Row extends WaitingRow>(
  index: D1Database,
  table: CallersTable<Row>,
  caller: Caller,
  limit: number,
  cursor?: string,
): Promise<KeysetPage<Row & { id: string }>> {
  const run = runner(index);
  const { rows, nextCursor } =
    caller.session === undefined
      ? await readCallersPage(run, table, caller, limit, cursor)
      : await sharedPage(run, table, caller, caller.session, limit, cursor);
  return { rows: rows.map((row) => ({ id: clientRequestId(row.sessionId, row.seq), ...row })), nextCursor };
}

/** The bearer of a share link sees one session. Within a session, the order of the log is the order of age. */
async function sharedPage<Row extends WaitingRow>(
  run: Run,
  table: CallersTable<Row>,
  caller: Caller,
  session: string,
  limit: number,
  cursor: string | undefined,
): Promise<KeysetPage<Row>> {
  const ofSession: CallersTable<Row> = {
    ...table,
    order: [
      ["sessionId", String],
      ["seq", Number],
    ],
  };
  const filters = [{ where: "tenant = ? AND session = ?", values: [caller.tenant, session] }];
  const rows = await run<Row>(pageQuery(ofSession, filters, limit, readCursor(ofSession, cursor)));
  return pageFrom(
    ofSession,
    rows.filter(({ workspace }) => mayUseWorkspace(caller, workspace)),
    limit,
  );
}

/**
 * Replaces all rows of one session, unless a write that has seen more of the log came first. `items` is a JSON array, and
 * `values` the SQL of each own column. The statements must follow the write of the session's own row in the same batch.
 */
export function replaceWaiting(
  index: D1Database,
  table: "permissions" | "questions",
  values: Readonly<Record<string, string>>,
  {
    sessionId,
    lastSeq,
    tenant,
    workspace,
  }: { sessionId: string; lastSeq: number; tenant: string; workspace: string },
  items: string,
): D1PreparedStatement[] {
  const isNewest = "(SELECT last_seq FROM sessions WHERE tenant = ?3 AND id = ?1) = ?2";
  return [
    index
      .prepare(`DELETE FROM ${table} WHERE tenant = ?3 AND session = ?1 AND ${isNewest}`)
      .bind(sessionId, lastSeq, tenant),
    index
      .prepare(
        `INSERT INTO ${table} (session, seq, tenant, workspace, requested_at, ${Object.keys(values).join(", ")})
         SELECT ?1, value ->> 'seq', ?3, ?4, value ->> 'since', ${Object.values(values).join(", ")}
         FROM json_each(?5) WHERE ${isNewest}`,
      )
      .bind(sessionId, lastSeq, tenant, workspace, items),
  ];
}
