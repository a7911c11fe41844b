import { globSync, readFileSync } from "node:fs";
import { dirname } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { fileURLToPath } from "node:url";
import { describe, expect, test } from "vitest";
import { hasPlan, isSeveral, planFaults } from "../fixtures/query-plans.ts";
import { type StatementSite, statementSites } from "../fixtures/source-statements.ts";

const SOURCE = fileURLToPath(new URL("../../src", import.meta.url));
const MIGRATIONS = fileURLToPath(new URL("../../migrations", import.meta.url));

/** A database with the tables of D1, or of one kind of object, and the folder whose statements use it. */
type Place = { folder: string; database: DatabaseSync };

/** Every object has the table of deadlines, which its class makes itself. */
const DEADLINES = statementSites(SOURCE)
  .filter(({ file, sql }) => file === "durable/deadlines.ts" && sql?.trim().startsWith("CREATE TABLE"))
  .map(({ sql }) => `${sql};`)
  .join("");

async function places(): Promise<Place[]> {
  const migrations = globSync("*.sql", { cwd: MIGRATIONS }).sort();
  const index = migrations.map((file) => readFileSync(`${MIGRATIONS}/${file}`, "utf8")).join("\n");
  const objects = globSync("**/schema.ts", { cwd: SOURCE }).filter((file) => file !== "durable/schema.ts");
  const schemas = objects.map(async (file) => {
    const exported = Object.values((await import(`${SOURCE}/${file}`)) as Record<string, { tables: string }>);
    const tables = exported.flatMap((value) => (typeof value === "object" ? value.tables : []));
    return { folder: dirname(file), database: open(DEADLINES + tables.join(";")) };
  });
  return [{ folder: "index", database: open(index) }, ...(await Promise.all(schemas))];
}

function open(tables: string): DatabaseSync {
  const database = new DatabaseSync(":memory:");
  database.exec(tables);
  return database;
}

const PLACES = await places();

/** A statement runs on the tables of its own folder; statements outside of all these folders run on all tables. */
function placesOf({ file }: StatementSite): Place[] {
  const own = PLACES.filter(({ folder }) => file.startsWith(`${folder}/`));
  const innermost = own.toSorted((a, b) => b.folder.length - a.folder.length).slice(0, 1);
  return own.length > 0 ? innermost : PLACES.filter(({ folder }) => folder !== "index");
}

/** The faults of a statement's plan wherever its tables exist; undefined if they exist nowhere. */
function faultsOf(site: StatementSite, sql: string): string[] | undefined {
  const plans = placesOf(site).flatMap(({ database }) => {
    try {
      const steps = database.prepare(`EXPLAIN QUERY PLAN ${sql}`).all();
      return [
        planFaults(
          sql,
          steps.map(({ detail }) => String(detail)),
        ),
      ];
    } catch (error) {
      if (/no such (table|column)/.test(String(error))) return [];
      throw error;
    }
  });
  return plans.length > 0 ? plans.flat() : undefined;
}

const SITES = statementSites(SOURCE).filter(({ file }) => !file.endsWith("schema.ts"));

/** The conditions by which a revocation finds the things that a subject or the bearer of a token has made. */
const OF_MAKER = ["subject", "jti"].map((key) => `by_${key} = ? AND (? IS NULL OR by_workspace = ?)`);
const OF_TARGET = ["session = ?", ...OF_MAKER];

function each(conditions: readonly string[], statement: (condition: string) => string): string[] {
  return conditions.map(statement);
}

/**
 * Statements that are put together at run time, by file and the beginning of the argument, with every statement that
 * comes of it. None: `test/workerd/explained-statements.ts` sees the statements when they run.
 */
const COMPOSED: readonly (readonly [file: string, source: string, statements: readonly string[]])[] = [
  ["connection/connection-store.ts", "query", []],
  ["index/runner.ts", "sql", []],
  ["index/session-index.ts", "`INSERT INTO sessions", []],
  [
    "index/waiting-requests.ts",
    "`DELETE FROM",
    each(
      ["permissions", "questions"],
      (table) => `DELETE FROM ${table} WHERE tenant = ?3 AND session = ?1
        AND (SELECT last_seq FROM sessions WHERE tenant = ?3 AND id = ?1) = ?2`,
    ),
  ],
  ["index/waiting-requests.ts", "`INSERT INTO", []],
  ["session/removal.ts", "`DELETE FROM", []],
  ["index/usage-index.ts", "`INSERT INTO usage", []],
  ["index/workspace-index.ts", "`INSERT OR REPLACE INTO workspaces", []],
  [
    "tenant/storage/answer-link-makers.ts",
    "`SELECT count(*)",
    each(
      ["by_subject = ?", "expires > ?"],
      (where) => `SELECT count(*) AS n FROM answer_link WHERE ${where}`,
    ),
  ],
  [
    "tenant/storage/answer-link-makers.ts",
    "`SELECT id",
    each(OF_TARGET, (c) => `SELECT id FROM answer_link WHERE ${c} AND expires > ? ORDER BY expires, id`),
  ],
  [
    "tenant/storage/audit-log.ts",
    "`DELETE FROM audit WHERE seq",
    each(
      ["kind = ?", "kind = ? AND subject = ?"],
      (c) => `DELETE FROM audit WHERE seq = (SELECT min(seq) FROM audit WHERE ${c}) RETURNING subject`,
    ),
  ],
  [
    "tenant/storage/earlier-sockets.ts",
    "`UPDATE socket SET isEnding",
    each(
      ["jti", "subject"],
      (key) =>
        `UPDATE socket SET isEnding = 1 WHERE ${key} = ? AND (? IS NULL OR workspace = ?) AND kind != 'reserved'
         RETURNING id, kind, holder, name`,
    ),
  ],
  [
    "tenant/storage/revocations.ts",
    "`SELECT count(*)",
    each(
      ["workspace > ''", "workspace = '' AND kind IN ('session', 'jti')", "by_subject = ?"],
      (where) => `SELECT count(*) AS n FROM revocation WHERE ${where}`,
    ),
  ],
  [
    "tenant/storage/shares.ts",
    "`SELECT count(*)",
    each(
      ["session = ?", "by_subject = ?", "expires > ?"],
      (where) => `SELECT count(*) AS n FROM share WHERE ${where}`,
    ),
  ],
  [
    "tenant/storage/shares.ts",
    "`SELECT * FROM share",
    each(["hash = ?", "id = ?"], (where) => `SELECT * FROM share WHERE ${where} AND expires > ?`),
  ],
  [
    "tenant/storage/shares.ts",
    "`SELECT id FROM share",
    each(OF_TARGET, (c) => `SELECT id FROM share WHERE ${c} AND expires > ? ORDER BY at, id`),
  ],
  [
    "tenant/storage/webhook-makers.ts",
    "`UPDATE webhook SET changes",
    each(OF_MAKER, (c) => `UPDATE webhook SET changes = changes + 1 WHERE ${c} RETURNING id, workspace`),
  ],
  [
    "tenant/subject/sockets.ts",
    "`SELECT id, jti",
    each(
      ["lease > 0 AND isEnding = 0", "isEnding = 1"],
      (where) => `SELECT id, jti, workspace, holder, name FROM socket WHERE ${where}`,
    ),
  ],
  [
    "tenant/subject/tokens.ts",
    "`SELECT jti, workspace FROM token",
    each(["isHost = 1", "isEnding = 1"], (where) => `SELECT jti, workspace FROM token WHERE ${where}`),
  ],
];

function composedOf({ file, source }: StatementSite) {
  return COMPOSED.find(([where, beginning]) => where === file && source.startsWith(beginning));
}

describe("the plan of a statement", () => {
  const literal = SITES.filter(({ sql }) => sql !== null && hasPlan(sql));
  const composed = SITES.flatMap((site) => (composedOf(site)?.[2] ?? []).map((sql) => ({ ...site, sql })));

  test.each([...literal, ...composed])("has no scan and no sort: $file $sql", (site) => {
    expect(faultsOf(site, site.sql ?? "")).toEqual([]);
  });

  test("is known of every statement in the source", () => {
    expect(SITES.length).toBeGreaterThan(100);
    const unknown = SITES.filter((site) => site.sql === null && !composedOf(site));
    expect(unknown.map(({ file, source }) => `${file}: ${source}`)).toEqual([]);
    expect(SITES.filter(({ sql }) => sql !== null && isSeveral(sql))).toEqual([]);
    const used = new Set(SITES.map(composedOf));
    expect(COMPOSED.filter((entry) => !used.has(entry))).toEqual([]);
  });

  test("is refused if it reads more with every row", () => {
    const database = open("CREATE TABLE log (seq INTEGER PRIMARY KEY, at INTEGER, kind TEXT)");
    const faults = (sql: string) =>
      planFaults(
        sql,
        database
          .prepare(`EXPLAIN QUERY PLAN ${sql}`)
          .all()
          .map(({ detail }) => String(detail)),
      );
    expect(faults("SELECT * FROM log WHERE seq > 1 ORDER BY seq")).toEqual([]);
    expect(faults("SELECT * FROM log")).toEqual(["SCAN log"]);
    expect(faults("SELECT * FROM log WHERE seq > 1 ORDER BY at")).toEqual(["USE TEMP B-TREE FOR ORDER BY"]);
    database.exec("CREATE INDEX log_by_kind ON log (kind)");
    expect(faults("SELECT count(*) FROM log")).toEqual(["SCAN log USING COVERING INDEX log_by_kind"]);
  });
});
