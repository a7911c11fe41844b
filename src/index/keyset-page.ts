/**
 * Pages of a D1 table by keyset: a page begins after the last row of the page before it, so rows that are
 * inserted meanwhile neither shift a page nor repeat a row.
 */

/** A table as readers see it. `Row` has the readers' field names. */
export type KeysetTable<Row> = {
  readonly name: string;
  readonly columns: Readonly<Record<keyof Row & string, string>>;
  /** The fields that order the rows and together identify one, each with the reader of its text in a cursor. */
  readonly order: readonly (readonly [field: keyof Row & string, read: (text: string) => SqlValue])[];
  readonly direction: "ASC" | "DESC";
};

/** A condition and the values of its `?` placeholders. */
export type Filter = { readonly where: string; readonly values: readonly SqlValue[] };

export type KeysetPage<Row> = { rows: Row[]; nextCursor: string | null };

type SqlValue = string | number;

/** The part of D1Database that a page needs. */
type Database = {
  prepare(sql: string): { bind(...values: SqlValue[]): { all<Row>(): Promise<{ results: Row[] }> } };
};

export async function readPage<Row extends object>(
  index: Database,
  table: KeysetTable<Row>,
  filters: readonly Filter[],
  limit: number,
  cursor: string | undefined,
): Promise<KeysetPage<Row>> {
  const { sql, values } = pageQuery(table, filters, limit, cursor);
  const { results } = await index
    .prepare(sql)
    .bind(...values)
    .all<Row>();
  return pageFrom(table, results, limit);
}

/** Selects one row more than the page holds: that row tells whether there is a next page. */
export function pageQuery<Row>(
  { name, columns, order, direction }: KeysetTable<Row>,
  filters: readonly Filter[],
  limit: number,
  cursor: string | undefined,
): { sql: string; values: SqlValue[] } {
  const selection = Object.entries(columns).map(([field, column]) => `${column} AS "${field}"`);
  const keys = order.map(([field]) => columns[field]);
  const after = cursor === undefined ? undefined : readCursor(order, cursor);
  const all = after
    ? [
        ...filters,
        { where: `(${keys}) ${direction === "ASC" ? ">" : "<"} (${keys.map(() => "?")})`, values: after },
      ]
    : filters;
  const sql = `SELECT ${selection.join(", ")} FROM ${name}
    WHERE ${all.map(({ where }) => where).join(" AND ")}
    ORDER BY ${keys.map((key) => `${key} ${direction}`).join(", ")} LIMIT ?`;
  return { sql, values: [...all.flatMap(({ values }) => values), limit + 1] };
}

export function pageFrom<Row extends object>(
  { order }: KeysetTable<Row>,
  results: readonly Row[],
  limit: number,
): KeysetPage<Row> {
  const rows = results.slice(0, limit);
  const last = rows.at(-1);
  const hasMore = results.length > limit && last !== undefined;
  return { rows, nextCursor: hasMore ? order.map(([field]) => last[field]).join(" ") : null };
}

/** The key fields, separated by spaces. Only the last field may contain spaces. A malformed cursor reads as none. */
function readCursor<Row>(order: KeysetTable<Row>["order"], cursor: string): SqlValue[] | undefined {
  const words = cursor.split(" ");
  if (words.length < order.length) return undefined;
  const texts = [...words.slice(0, order.length - 1), words.slice(order.length - 1).join(" ")];
  return texts.includes("") ? undefined : order.map(([, read], at) => read(texts[at] ?? ""));
}
