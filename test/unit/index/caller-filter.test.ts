import { DatabaseSync } from "node:sqlite";
import { describe, expect, test } from "vitest";
import { ofCallersSessions, ofCallersWorkspaces } from "../../../src/index/caller-filter.ts";
import { type Caller, mayUseWorkspace } from "../../../src/protocol/caller.ts";

const WORKSPACES = ["main", "main-2", "team-a", "team-b", "a*b", "x"];

function caller(workspaces: string[], more: Partial<Caller> = {}): Caller {
  return { tenant: "acme", subject: "ann", workspaces, scopes: ["session:read"], expires: 0, ...more };
}

/** One session per workspace, for two tenants. */
function database(): DatabaseSync {
  const db = new DatabaseSync(":memory:");
  db.exec("CREATE TABLE sessions (tenant TEXT, id TEXT, workspace TEXT)");
  db.exec("CREATE TABLE workspaces (tenant TEXT, id TEXT)");
  for (const tenant of ["acme", "other"])
    for (const workspace of WORKSPACES) {
      db.prepare("INSERT INTO sessions VALUES (?, ?, ?)").run(tenant, `s-${workspace}`, workspace);
      db.prepare("INSERT INTO workspaces VALUES (?, ?)").run(tenant, workspace);
    }
  return db;
}

function select(table: "sessions" | "workspaces", filters: ReturnType<typeof ofCallersSessions>) {
  const where = filters.map((filter) => filter.where).join(" AND ");
  return database()
    .prepare(`SELECT tenant, id FROM ${table} WHERE ${where} ORDER BY rowid`)
    .all(...filters.flatMap(({ values }) => values))
    .map(({ tenant, id }) => `${tenant}/${id}`);
}

describe("a caller's rows of the index", () => {
  test.each([
    [["*"]],
    [["main"]],
    [["team-*"]],
    [["*-2", "x"]],
    [["ma*in"]],
    [["main*"]],
    [[]],
    [["nothing"]],
  ])("are those of the workspaces %j", (workspaces) => {
    const me = caller(workspaces);
    const mine = WORKSPACES.filter((name) => mayUseWorkspace(me, name));
    expect(select("sessions", ofCallersSessions(me, "id"))).toEqual(mine.map((name) => `acme/s-${name}`));
    expect(select("workspaces", ofCallersWorkspaces(me))).toEqual(mine.map((name) => `acme/${name}`));
  });

  test("are one session and no workspace for the bearer of a share link", () => {
    const bearer = caller(["main"], { session: "s-main" });
    expect(select("sessions", ofCallersSessions(bearer, "id"))).toEqual(["acme/s-main"]);
    expect(select("sessions", ofCallersSessions({ ...bearer, session: "s-x" }, "id"))).toEqual([]);
    expect(select("workspaces", ofCallersWorkspaces(bearer))).toEqual([]);
  });
});
