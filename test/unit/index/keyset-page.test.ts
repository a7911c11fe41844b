import { DatabaseSync } from "node:sqlite";
import { describe, expect, test } from "vitest";
import { type KeysetTable, pageFrom, pageQuery, readCursor } from "../../../src/index/keyset-page.ts";

type Row = { room: string; seq: number; name: string };

const ROOMS: KeysetTable<Row> = {
  name: "rooms",
  columns: { room: "room_name", seq: "seq", name: "name" },
  order: [
    ["room", String],
    ["seq", Number],
    ["name", String],
  ],
  direction: "ASC",
};
const ALL = [{ where: "TRUE", values: [] }];

/** Ten rows whose order differs from their order as text, with spaces in the last key. */
function database(): DatabaseSync {
  const db = new DatabaseSync(":memory:");
  db.exec("CREATE TABLE rooms (room_name TEXT, seq INTEGER, name TEXT)");
  for (let seq = 1; seq <= 10; seq += 1)
    db.prepare("INSERT INTO rooms VALUES (?, ?, ?)").run(seq <= 5 ? "a" : "b", seq * 3, `row ${seq}`);
  return db;
}

function read(db: DatabaseSync, table: KeysetTable<Row>, limit: number, cursor?: string, filters = ALL) {
  const { sql, values } = pageQuery(table, filters, limit, readCursor(table, cursor));
  return pageFrom(table, db.prepare(sql).all(...values) as Row[], limit);
}

function readAll(table: KeysetTable<Row>, limit: number): string[] {
  const db = database();
  const names: string[] = [];
  for (let cursor: string | null | undefined; cursor !== null; ) {
    const page = read(db, table, limit, cursor);
    names.push(...page.rows.map(({ name }) => name));
    cursor = page.nextCursor;
  }
  return names;
}

describe("a keyset page", () => {
  const ascending = Array.from({ length: 10 }, (_, at) => `row ${at + 1}`);

  test.each([1, 3, 5, 10, 11])("shows every row once and in order with %i rows per page", (limit) => {
    expect(readAll(ROOMS, limit)).toEqual(ascending);
    expect(readAll({ ...ROOMS, direction: "DESC" }, limit)).toEqual(ascending.toReversed());
  });

  test("has a next page only when there are more rows", () => {
    const db = database();
    expect(read(db, ROOMS, 10).nextCursor).toBeNull();
    expect(read(db, ROOMS, 9).nextCursor).toBe("b 27 row 9");
  });

  test("neither repeats nor skips a row when a row is inserted before its cursor", () => {
    const db = database();
    const { nextCursor } = read(db, ROOMS, 4);
    db.exec("INSERT INTO rooms VALUES ('a', 1, 'late')");
    expect(read(db, ROOMS, 2, nextCursor ?? "").rows.map(({ name }) => name)).toEqual(["row 5", "row 6"]);
  });

  test.each(["", "a", "a 3", " 3 x", "a 3 "])(
    "begins at the first row when the cursor %j is malformed",
    (cursor) => {
      expect(read(database(), ROOMS, 1, cursor).rows[0]?.name).toBe("row 1");
    },
  );

  test("combines filters and cursor", () => {
    const filters = [
      { where: "room_name = ?", values: ["b"] },
      { where: "seq > ?", values: [20] },
    ];
    const { sql, values } = pageQuery(ROOMS, filters, 2, readCursor(ROOMS, "b 21 row 7"));
    expect(values).toEqual(["b", 20, "b", 21, "row 7", 3]);
    const rows = database()
      .prepare(sql)
      .all(...values) as Row[];
    expect(rows.map(({ name }) => name)).toEqual(["row 8", "row 9", "row 10"]);
  });
});
