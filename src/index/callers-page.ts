import { type Caller, mayUseWorkspace } from "../protocol/caller.ts";
import {
  beyond,
  conditions,
  type Filter,
  inOrder,
  type Key,
  type KeysetPage,
  type KeysetTable,
  keyOf,
  ordering,
  pageFrom,
  pageQuery,
  type Query,
  type Run,
  readCursor,
  selection,
  upTo,
  valuesOf,
} from "./keyset-page.ts";

/**
 * Pages of the rows that a caller may see. Each page reads a bounded number of rows: the database serves all tenants one
 * query at a time, so a list must not read more because its tenant has more. Three plans do that:
 *
 * - A caller of all workspaces reads the tenant's rows in the order of the page.
 * - A caller of some workspaces reads the newest rows of each, merged here.
 * - A caller whose patterns cover more workspaces than that reads a window of the tenant's rows, and its page may be
 *   short. The page's cursor then continues after the window.
 */
export type CallersTable<Row> = KeysetTable<Row> & {
  /** The field and the column that have the workspace's name. */
  readonly workspace: keyof Row & string;
};

/** Rows with certain values in the columns that precede the workspace in an index of the table. */
export type Section = readonly Filter[];

/**
 * `sections` do not overlap. Rows of a section other than the whole tenant have an index that begins with its columns
 * and the workspace. `isWanted` says the same of a row.
 */
export type Selection<Row> = {
  readonly sections: readonly Section[];
  /** The only section has an index in the order of the pages as well. */
  readonly isOrdered?: true;
  readonly isWanted: (row: Row) => boolean;
};

export async function readCallersPage<Row extends object>(
  run: Run,
  table: CallersTable<Row>,
  caller: Caller,
  limit: number,
  cursor: string | undefined,
  selected?: Selection<Row>,
): Promise<KeysetPage<Row>> {
  const after = readCursor(table, cursor);
  const tenant: Filter = { where: "tenant = ?", values: [caller.tenant] };
  if ((!selected || selected.isOrdered) && caller.workspaces.includes("*")) {
    const filters = [tenant, ...(selected?.sections[0] ?? [])];
    return pageFrom(table, await run<Row>(pageQuery(table, filters, limit, after)), limit);
  }
  const rows: Row[] = [];
  for (const section of selected?.sections ?? [[]]) {
    const filters = [tenant, ...section];
    const names = await workspacesOf(run, table, caller, filters);
    if (!names) {
      const isSeen = (row: Row) =>
        mayUseWorkspace(caller, String(row[table.workspace])) && (selected?.isWanted(row) ?? true);
      return windowPage(run, table, [tenant], isSeen, limit, after);
    }
    rows.push(...(await newestOf(run, table, filters, names, limit, after)));
  }
  return pageFrom(table, inOrder(table, rows), limit);
}

/** The rows of the named workspaces that can be on the page. */
async function newestOf<Row extends object>(
  run: Run,
  table: CallersTable<Row>,
  filters: readonly Filter[],
  names: readonly string[],
  limit: number,
  after: Key | undefined,
): Promise<Row[]> {
  if (names.length === 0) return [];
  const rest = after ? [...filters, beyond(table, after)] : filters;
  if (names.length <= FEW) return run<Row>(mergeQuery(table, rest, names, limit + 1));
  // The page is made of rows up to the first row of the workspace that ranks last on it.
  const first = inOrder(table, await run<Row>(mergeQuery(table, rest, names, 1)));
  const ranked = first.slice(0, limit + 1);
  const last = ranked.at(-1);
  if (!last) return [];
  const bounded = first.length > limit ? [...rest, upTo(table, keyOf(table, last))] : rest;
  const nearest = ranked.map((row) => String(row[table.workspace]));
  return run<Row>(mergeQuery(table, bounded, nearest, limit + 1));
}

/** Selects the first `limit` rows of each name, in no order. */
function mergeQuery<Row>(
  table: CallersTable<Row>,
  filters: readonly Filter[],
  names: readonly string[],
  limit: number,
): Query {
  const sql = `SELECT ${selection(table)} FROM json_each(?) AS wanted JOIN ${table.name} ON ${table.name}.rowid IN (
    SELECT rowid FROM ${table.name} WHERE ${conditions(filters)} AND ${table.columns[table.workspace]} = wanted.value
    ${ordering(table)} LIMIT ?)`;
  return { sql, values: [JSON.stringify(names), ...valuesOf(filters), limit] };
}

/** Reads one window of the tenant's rows and shows those that the caller may see. */
async function windowPage<Row extends object>(
  run: Run,
  table: CallersTable<Row>,
  filters: readonly Filter[],
  isSeen: (row: Row) => boolean,
  limit: number,
  after: Key | undefined,
): Promise<KeysetPage<Row>> {
  const window = pageFrom(table, await run<Row>(pageQuery(table, filters, WINDOW, after)), WINDOW);
  const seen = window.rows.filter(isSeen);
  const page = pageFrom(table, seen, limit);
  return page.nextCursor === null ? { rows: page.rows, nextCursor: window.nextCursor } : page;
}

/** The workspaces of the caller that can have rows; undefined if they are too many to read each of them. */
async function workspacesOf<Row>(
  run: Run,
  table: CallersTable<Row>,
  caller: Caller,
  filters: readonly Filter[],
): Promise<string[] | undefined> {
  const isPattern = (name: string) => name.includes("*");
  const names = new Set(caller.workspaces.filter((name) => !isPattern(name)));
  for (const prefix of prefixesOf(caller.workspaces.filter(isPattern))) {
    const found = await run<{ name: string | null }>(namesQuery(table, filters, prefix));
    if (found.length > MANY) return undefined;
    for (const { name } of found) if (name !== null && mayUseWorkspace(caller, name)) names.add(name);
  }
  return names.size > MANY ? undefined : [...names];
}

/** The parts of patterns before the `*`, without those that another one covers. */
function prefixesOf(patterns: readonly string[]): string[] {
  const prefixes = [...new Set(patterns.map((pattern) => pattern.slice(0, pattern.indexOf("*"))))];
  return prefixes.filter((prefix) => !prefixes.some((other) => other !== prefix && prefix.startsWith(other)));
}

/**
 * Selects the names of the workspaces that begin with `prefix` and have rows. Each step seeks the next name in the
 * index, so the query reads one row per name and not one per session. The last name may be null.
 */
function namesQuery<Row>(table: CallersTable<Row>, filters: readonly Filter[], prefix: string): Query {
  const column = table.columns[table.workspace];
  const next = `SELECT min(${column}) FROM ${table.name} WHERE ${conditions(filters)}`;
  const sql = `WITH RECURSIVE found (workspace_name) AS (
    SELECT (${next} AND ${column} >= ?)
    UNION ALL SELECT (${next} AND ${column} > found.workspace_name) FROM found
    WHERE substr(found.workspace_name, 1, length(?)) = ? LIMIT ?)
    SELECT workspace_name AS name FROM found`;
  const values = valuesOf(filters);
  return { sql, values: [...values, prefix, ...values, prefix, prefix, MANY + 1] };
}

/** So few workspaces are read without asking first which of them have the newest rows. */
const FEW = 4;
/** A token names at most so many workspaces. */
const MANY = 1000;
const WINDOW = 1000;
