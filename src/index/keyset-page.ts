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

export type Query = { readonly sql: string; readonly values: readonly SqlValue[] };

export type KeysetPage<Row> = { rows: Row[]; nextCursor: string | null };

/** The values of a row's key fields, in their order. */
export type Key = readonly SqlValue[];

export type SqlValue = string | number;

/** Runs a query on the index. */
export type Run = <Row>(query: Query) => Promise<Row[]>;

/** Selects one row more than the page holds: that row tells whether there is a next page. */
export function pageQuery<Row>(
  table: KeysetTable<Row>,
  filters: readonly Filter[],
  limit: number,
  after: Key | undefined,
): Query {
  const all = after ? [...filters, beyond(table, after)] : filters;
  const sql = `SELECT ${selection(table)} FROM ${table.name} WHERE ${conditions(all)} ${ordering(table)} LIMIT ?`;
  return { sql, values: [...valuesOf(all), limit + 1] };
}

export function pageFrom<Row extends object>(
  table: KeysetTable<Row>,
  results: readonly Row[],
  limit: number,
): KeysetPage<Row> {
  const rows = results.slice(0, limit);
  const last = rows.at(-1);
  const hasMore = results.length > limit && last !== undefined;
  return { rows, nextCursor: hasMore ? keyOf(table, last).join(" ") : null };
}

/** The key fields, separated by spaces. Only the last field may contain spaces. A malformed cursor reads as none. */
export function readCursor<Row>(
  { order }: KeysetTable<Row>,
  cursor: string | undefined,
): SqlValue[] | undefined {
  if (cursor === undefined) return undefined;
  const words = cursor.split(" ");
  if (words.length < order.length) return undefined;
  const texts = [...words.slice(0, order.length - 1), words.slice(order.length - 1).join(" ")];
  return texts.includes("") ? undefined : order.map(([, read], at) => read(texts[at] ?? ""));
}

export function keyOf<Row>({ order }: KeysetTable<Row>, row: Row): Key {
  return order.map(([field]) => row[field] as SqlValue);
}

/** Sorts rows as the table's pages do. Keys are ASCII, so JavaScript orders them as SQLite does. */
export function inOrder<Row>(table: KeysetTable<Row>, rows: readonly Row[]): Row[] {
  const sign = table.direction === "ASC" ? 1 : -1;
  return rows.toSorted((a, b) => sign * compareKeys(keyOf(table, a), keyOf(table, b)));
}

function compareKeys(a: Key, b: Key): number {
  for (const [at, value] of a.entries()) {
    const other = b[at] ?? "";
    if (value !== other) return value < other ? -1 : 1;
  }
  return 0;
}

/** The rows that follow `key`. */
export function beyond<Row>(table: KeysetTable<Row>, key: Key): Filter {
  return relation(table, table.direction === "ASC" ? ">" : "<", key);
}

/** The rows up to `key` and the row with that key. */
export function upTo<Row>(table: KeysetTable<Row>, key: Key): Filter {
  return relation(table, table.direction === "ASC" ? "<=" : ">=", key);
}

function relation<Row>(table: KeysetTable<Row>, operator: string, values: Key): Filter {
  const keys = keyColumns(table);
  return { where: `(${keys}) ${operator} (${keys.map(() => "?")})`, values };
}

function keyColumns<Row>({ order, columns }: KeysetTable<Row>): string[] {
  return order.map(([field]) => columns[field]);
}

export function ordering<Row>(table: KeysetTable<Row>): string {
  return `ORDER BY ${keyColumns(table)
    .map((key) => `${key} ${table.direction}`)
    .join(", ")}`;
}

export function selection<Row>({ name, columns }: KeysetTable<Row>): string {
  return Object.entries(columns)
    .map(([field, column]) => `${name}.${column} AS "${field}"`)
    .join(", ");
}

export function conditions(filters: readonly Filter[]): string {
  return filters.map(({ where }) => where).join(" AND ");
}

export function valuesOf(filters: readonly Filter[]): SqlValue[] {
  return filters.flatMap(({ values }) => values);
}
