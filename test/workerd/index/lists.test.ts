import { env } from "cloudflare:workers";
import { beforeAll, describe, expect, test } from "vitest";
import { listPermissions } from "../../../src/index/permission-index.ts";
import { listSessions } from "../../../src/index/session-index.ts";
import { listWorkspaces } from "../../../src/index/workspace-index.ts";
import type { Caller } from "../../../src/protocol/caller.ts";

/** One tenant with 100,000 sessions in 1,600 workspaces. Every tenth session waits for a permission. */
const SESSIONS = 100_000;
const WORKSPACES = 1600;
const tenant = `t-${crypto.randomUUID()}`;

function caller(workspaces: string[], more: Partial<Caller> = {}): Caller {
  return { tenant, subject: "ann", workspaces, scopes: ["session:read"], expires: 0, ...more };
}

/** Counts the rows that D1 reads for the statements made through it. */
function metered(): { index: D1Database; rowsRead: () => number } {
  let rowsRead = 0;
  const statement = (inner: D1PreparedStatement): D1PreparedStatement =>
    new Proxy(inner, {
      get(target, name) {
        if (name === "bind") return (...values: unknown[]) => statement(target.bind(...values));
        if (name !== "all") return Reflect.get(target, name) as unknown;
        return async () => {
          const result = await target.all();
          rowsRead += result.meta.rows_read;
          return result;
        };
      },
    });
  const index = new Proxy(env.INDEX, {
    get: (target, name) =>
      name === "prepare"
        ? (sql: string) => statement(target.prepare(sql))
        : (Reflect.get(target, name) as unknown),
  });
  return { index, rowsRead: () => rowsRead };
}

const names = (count: number, from = 0) => Array.from({ length: count }, (_, n) => workspaceOf(from + n));
const workspaceOf = (n: number) => `w-${String(n % WORKSPACES).padStart(4, "0")}`;

beforeAll(async () => {
  const numbers = (from: number, to: number) =>
    `WITH RECURSIVE n (i) AS (SELECT ${from} UNION ALL SELECT i + 1 FROM n WHERE i < ${to - 1})`;
  const workspace = `printf('w-%04d', i % ${WORKSPACES})`;
  const time = "strftime('%Y-%m-%dT%H:%M:%fZ', 1700000000 + i, 'unixepoch')";
  for (let from = 0; from < SESSIONS; from += 20_000)
    await env.INDEX.batch([
      env.INDEX.prepare(
        `${numbers(from, from + 20_000)}
         INSERT INTO sessions (tenant, id, workspace, agent, cwd, client_cwd, state, created_at, updated_at, last_seq)
         SELECT ?, printf('00000000-0000-4000-8000-%012d', i), ${workspace}, 'a', '/srv', '/srv/' || (i % 500), 'idle',
           ${time}, ${time}, 1 FROM n`,
      ).bind(tenant),
      env.INDEX.prepare(
        `${numbers(from, from + 20_000)}
         INSERT INTO permissions (tenant, session, seq, workspace, requested_at)
         SELECT ?, printf('00000000-0000-4000-8000-%012d', i), 1, ${workspace}, ${time} FROM n WHERE i % 10 = 0`,
      ).bind(tenant),
    ]);
  await env.INDEX.prepare(
    `${numbers(0, WORKSPACES)} INSERT INTO workspaces (tenant, id, hosts, updated_at)
     SELECT ?, ${workspace}, 0, ${time} FROM n`,
  )
    .bind(tenant)
    .run();
}, 120_000);

/** D1 counts an index entry and the row it leads to. `extra` is what finding the workspaces costs. */
const bounded = (limit: number, extra = 0) => 4 * (limit + 1) + extra;

describe("a page of 100,000 sessions", () => {
  test.each([
    ["all workspaces", ["*"], bounded(50)],
    ["one workspace", names(1), bounded(50)],
    ["four workspaces", names(4), 4 * bounded(50)],
    ["thirty workspaces", names(30), 30 * bounded(50)],
    ["a thousand workspaces", names(1000), 8000],
    ["a pattern over ten workspaces", ["w-012*"], 12 * bounded(50)],
    ["a pattern over a hundred workspaces", ["w-01*"], 4000],
    ["a pattern over all workspaces, by their names", ["w-*"], 8000],
  ])("of %s reads a bounded number of rows", async (_, workspaces, most) => {
    const me = caller(workspaces);
    const { index, rowsRead } = metered();
    const first = await listSessions(index, me, 50);
    expect(first.sessions).toHaveLength(50);
    expect(rowsRead()).toBeGreaterThan(50);
    expect(rowsRead()).toBeLessThanOrEqual(most);
    const next = await listSessions(index, me, 50, { cursor: first.nextCursor ?? undefined });
    expect(rowsRead()).toBeLessThanOrEqual(2 * most);
    const shown = [...first.sessions, ...next.sessions];
    const sorted = shown.toSorted((a, b) => (a.updatedAt < b.updatedAt ? 1 : -1));
    expect(shown).toEqual(sorted);
    expect(new Set(shown.map(({ sessionId }) => sessionId)).size).toBe(shown.length);
  });

  test.each([
    ["all workspaces", ["*"], "/srv/7", 50, 3500],
    ["one workspace", names(1, 7), "/srv/7", 10, 50],
    ["several workspaces", names(30), "/srv/7", 10, 200],
    ["one workspace and the host's name of it", names(1, 7), "/srv", 50, 200],
    ["all workspaces and the host's name of it", ["*"], "/srv", 50, 5000],
  ])("of one directory, for %s, reads a bounded number of rows", async (_, workspaces, cwd, limit, most) => {
    const { index, rowsRead } = metered();
    const { sessions } = await listSessions(index, caller(workspaces), limit, { cwd });
    expect(sessions).toHaveLength(limit);
    expect(sessions.every((session) => session.clientCwd === cwd || session.cwd === cwd)).toBe(true);
    expect(rowsRead()).toBeLessThanOrEqual(most);
  });

  test("of the bearer of a share link reads one row", async () => {
    const { index, rowsRead } = metered();
    const session = "00000000-0000-4000-8000-000000000042";
    const bearer = caller([workspaceOf(42)], { session });
    expect((await listSessions(index, bearer, 50)).sessions.map(({ sessionId }) => sessionId)).toEqual([
      session,
    ]);
    expect((await listSessions(index, { ...bearer, workspaces: ["w-x"] }, 50)).sessions).toEqual([]);
    expect((await listWorkspaces(index, bearer, 50, undefined)).workspaces).toEqual([]);
    expect(rowsRead()).toBeLessThanOrEqual(4);
  });
});

describe("a page of 10,000 permissions", () => {
  test.each([
    ["all workspaces", ["*"], 50],
    ["one workspace", names(1), 50],
    ["thirty workspaces", names(30), 50],
    ["a pattern", ["w-00*"], 50],
  ])("of %s reads a bounded number of rows", async (_, workspaces, limit) => {
    const { index, rowsRead } = metered();
    const { permissions } = await listPermissions(index, caller(workspaces), limit);
    expect(permissions).toHaveLength(limit);
    expect(permissions).toEqual(permissions.toSorted((a, b) => (a.requestedAt < b.requestedAt ? -1 : 1)));
    expect(rowsRead()).toBeLessThanOrEqual(3000);
  });

  test("of the bearer of a share link reads one session's rows", async () => {
    const { index, rowsRead } = metered();
    const bearer = caller([workspaceOf(40)], { session: "00000000-0000-4000-8000-000000000040" });
    expect((await listPermissions(index, bearer, 50)).permissions).toHaveLength(1);
    expect((await listPermissions(index, { ...bearer, workspaces: ["w-x"] }, 50)).permissions).toEqual([]);
    expect(rowsRead()).toBeLessThanOrEqual(8);
  });
});

describe("a page of 1,600 workspaces", () => {
  test.each([
    ["all", ["*"], bounded(50)],
    ["three", names(3), 20],
    ["some", names(300), 2000],
    ["a pattern's", ["w-01*"], 2000],
  ])("reads a bounded number of rows for %s", async (_, workspaces, most) => {
    const { index, rowsRead } = metered();
    const page = await listWorkspaces(index, caller(workspaces), 50, undefined);
    expect(page.workspaces).toHaveLength(Math.min(50, workspaces.length === 3 ? 3 : 50));
    expect(rowsRead()).toBeLessThanOrEqual(most);
  });
});
