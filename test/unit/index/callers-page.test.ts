import { DatabaseSync } from "node:sqlite";
import { describe, expect, test } from "vitest";
import { type CallersTable, readCallersPage, type Selection } from "../../../src/index/callers-page.ts";
import type { Query } from "../../../src/index/keyset-page.ts";
import { type Caller, mayUseWorkspace } from "../../../src/protocol/caller.ts";

type Row = { id: string; workspace: string; at: string; name: string };

const TABLE: CallersTable<Row> = {
  name: "things",
  columns: { id: "id", workspace: "workspace", at: "at", name: "name" },
  workspace: "workspace",
  order: [
    ["at", String],
    ["id", String],
  ],
  direction: "DESC",
};

function caller(workspaces: string[]): Caller {
  return { tenant: "acme", subject: "ann", workspaces, scopes: ["session:read"], expires: 0 };
}

/** Rows of two tenants, dealt out to the workspaces; several rows have the same time. */
function database(workspaces: readonly string[], rowsEach: number) {
  const db = new DatabaseSync(":memory:");
  db.exec("CREATE TABLE things (tenant TEXT, id TEXT, workspace TEXT, at TEXT, name TEXT)");
  db.exec("CREATE INDEX things_by_time ON things (tenant, at, id)");
  db.exec("CREATE INDEX things_by_workspace ON things (tenant, workspace, at, id)");
  db.exec("CREATE INDEX things_by_name ON things (tenant, name, workspace, at, id)");
  const insert = db.prepare("INSERT INTO things VALUES (?, ?, ?, ?, ?)");
  const rows: Row[] = [];
  for (let n = 0; n < workspaces.length * rowsEach; n += 1) {
    const workspace = workspaces[(n * 7) % workspaces.length] ?? "";
    const id = `s-${String((n * 31) % 1000).padStart(4, "0")}-${n}`;
    const row = { id, workspace, at: `t${String(n >> 1).padStart(6, "0")}`, name: n % 3 ? "odd" : "third" };
    for (const tenant of ["acme", "other"]) insert.run(tenant, ...[row.id, row.workspace, row.at, row.name]);
    rows.push(row);
  }
  const run = async <T>({ sql, values }: Query) => db.prepare(sql).all(...values) as T[];
  return {
    run,
    rows: rows.toSorted((a, b) => (a.at === b.at ? (a.id < b.id ? 1 : -1) : a.at < b.at ? 1 : -1)),
  };
}

async function readAll(
  { run }: ReturnType<typeof database>,
  me: Caller,
  limit: number,
  selected?: Selection<Row>,
) {
  const pages: Row[][] = [];
  for (let cursor: string | null | undefined; cursor !== null; ) {
    const page = await readCallersPage(run, TABLE, me, limit, cursor, selected);
    pages.push(page.rows.map((row) => ({ ...row })));
    cursor = page.nextCursor;
  }
  return pages;
}

const NAMED = ["main", "main-2", "team-a", "team-b", "team-c", "team-d", "team-e", "x"];

describe("the pages of a caller", () => {
  const db = database(NAMED, 9);

  test.each([
    [["*"]],
    [["main"]],
    [["main", "x"]],
    [["team-*"]],
    [["*-2", "x"]],
    [["ma*in"]],
    [["main*"]],
    [["main*", "m*"]],
    [NAMED.slice(1)],
    [[]],
    [["nothing"]],
  ])("show every row of the workspaces %j once, newest first", async (workspaces) => {
    const me = caller(workspaces);
    const mine = db.rows.filter(({ workspace }) => mayUseWorkspace(me, workspace));
    for (const limit of [1, 3, 100]) {
      const pages = await readAll(db, me, limit);
      expect(pages.flat()).toEqual(mine);
      // Only the last page may be short.
      expect(pages.slice(0, -1).every((page) => page.length === limit)).toBe(true);
    }
    const third: Selection<Row> = {
      sections: [[{ where: "name = ?", values: ["third"] }], [{ where: "name = ?", values: ["none"] }]],
      isWanted: ({ name }) => name === "third",
    };
    const found = (await readAll(db, me, 4, third)).flat();
    expect(found).toEqual(mine.filter(({ name }) => name === "third"));
  });

  test("show every row once also if a pattern covers more workspaces than are read one by one", async () => {
    const many = database([...Array.from({ length: 1100 }, (_, n) => `w-${n}`), "other"], 2);
    const me = caller(["w-*"]);
    const mine = many.rows.filter(({ workspace }) => mayUseWorkspace(me, workspace));
    const pages = await readAll(many, me, 200);
    expect(pages.flat()).toEqual(mine);
    const third: Selection<Row> = {
      sections: [[{ where: "name = ?", values: ["third"] }]],
      isWanted: ({ name }) => name === "third",
    };
    expect((await readAll(many, caller(["*"]), 7, third)).flat()).toEqual(
      many.rows.filter(({ name }) => name === "third"),
    );
  });
});
