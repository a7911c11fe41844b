import { evictDurableObject, runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { describe, expect, test } from "vitest";
import { CONNECTION_SCHEMA } from "../../../src/connection/schema.ts";
import { type Schema, Tables } from "../../../src/durable/schema.ts";
import { SESSION_SCHEMA } from "../../../src/session/schema.ts";
import { TENANT_SCHEMA } from "../../../src/tenant/schema.ts";
import { SUBJECT_SCHEMA } from "../../../src/tenant/subject/schema.ts";
import { WORKSPACE_SCHEMA } from "../../../src/workspace/schema.ts";
import { LATE_TABLES } from "./late-tables.ts";
import { PAST_TABLES } from "./past-schemas.ts";

const SCHEMAS = [SESSION_SCHEMA, CONNECTION_SCHEMA, WORKSPACE_SCHEMA, TENANT_SCHEMA, SUBJECT_SCHEMA];

function withStorage<T>(use: (storage: DurableObjectStorage) => T | Promise<T>): Promise<T> {
  const stub = env.TENANT_DO.getByName(crypto.randomUUID());
  return runInDurableObject(stub, (_, ctx) => use(ctx.storage));
}

/** Every table with its columns, and every index: what statements can depend on. */
function shapeOf({ sql }: DurableObjectStorage) {
  const objects = sql
    .exec<{ type: string; name: string }>(
      `SELECT type, name FROM sqlite_master
       WHERE name NOT LIKE 'sqlite\\_%' ESCAPE '\\' AND name NOT LIKE '\\_cf\\_%' ESCAPE '\\' AND name != 'deadline'
       ORDER BY name`,
    )
    .toArray();
  return objects.map(({ type, name }) => ({
    type,
    name,
    columns: sql
      .exec<{ name: string; type: string; notnull: number; pk: number }>(
        `SELECT name, type, "notnull", pk FROM pragma_table_info(?) ORDER BY name`,
        name,
      )
      .toArray(),
  }));
}

function shapeOfNew(schema: Schema) {
  return withStorage((storage) => {
    new Tables(storage, schema).create();
    return shapeOf(storage);
  });
}

describe.each(SCHEMAS)("the schema of a $name object", (schema) => {
  const past = PAST_TABLES[schema.name] ?? [];

  test("has a fixture for each past version", () => {
    // A schema without upgrades has one version; its unnumbered form is the same.
    expect(past).toHaveLength(Math.max(1, schema.upgrades.length));
  });

  test("is made in its newest version, once", () =>
    withStorage((storage) => {
      const tables = new Tables(storage, schema);
      expect(tables.exist).toBe(false);
      expect(shapeOf(storage)).toEqual([]);
      tables.create();
      tables.create();
      expect(tables.exist).toBe(true);
      expect(new Tables(storage, schema).exist).toBe(true);
      expect(storage.kv.get(`schema:${schema.name}`)).toBe(schema.upgrades.length + 1);
    }));

  test.each(past.map((sql, i) => ({ version: i + 1, sql })))(
    "is upgraded from version $version to the tables a new object has",
    async ({ version, sql }) => {
      const expected = await shapeOfNew(schema);
      const variants = version === 1 ? [sql, sql + LATE_TABLES[schema.name]] : [sql];
      for (const variant of variants) {
        await withStorage((storage) => {
          storage.sql.exec(variant);
          if (version > 1 || schema.unnumbered.length === 0) storage.kv.put(`schema:${schema.name}`, version);
          expect(new Tables(storage, schema).exist).toBe(true);
          expect(shapeOf(storage)).toEqual(expected);
          // Opened again, nothing is left to do.
          expect(new Tables(storage, schema).exist).toBe(true);
          expect(shapeOf(storage)).toEqual(expected);
        });
      }
    },
  );
});

describe("an upgrade", () => {
  const schema: Schema = {
    name: "example",
    unnumbered: ["a"],
    tables: "CREATE TABLE a (x INTEGER, y INTEGER, z INTEGER)",
    upgrades: [
      "ALTER TABLE a ADD COLUMN y INTEGER",
      (sql) => void sql.exec("ALTER TABLE a ADD COLUMN z INTEGER"),
    ],
  };

  test("runs every step after the stored version and keeps the rows", () =>
    withStorage((storage) => {
      storage.sql.exec("CREATE TABLE a (x INTEGER); INSERT INTO a VALUES (1)");
      new Tables(storage, schema);
      expect(storage.sql.exec("SELECT * FROM a").toArray()).toEqual([{ x: 1, y: null, z: null }]);
      expect(storage.kv.get("schema:example")).toBe(3);
    }));

  test("leaves the tables and the version as they were if it fails", () =>
    withStorage((storage) => {
      storage.sql.exec("CREATE TABLE a (x INTEGER)");
      const broken = { ...schema, upgrades: [schema.upgrades[0] ?? "", "ALTER TABLE missing ADD COLUMN z"] };
      expect(() => new Tables(storage, broken)).toThrow(/missing/);
      expect(storage.kv.get("schema:example")).toBeUndefined();
      expect(() => storage.sql.exec("SELECT y FROM a")).toThrow(/y/);
    }));

  test("is not undone by an older build, which reads the newer tables as they are", () =>
    withStorage((storage) => {
      new Tables(storage, schema).create();
      const older = { ...schema, upgrades: schema.upgrades.slice(0, 1) };
      expect(new Tables(storage, older).exist).toBe(true);
      expect(storage.kv.get("schema:example")).toBe(3);
    }));
});

test("a workspace of version 1 keeps its settings, its webhooks and its unsent messages", async () => {
  const stub = env.WORKSPACE_STATE_DO.getByName(`acme/${crypto.randomUUID()}`);
  await runInDurableObject(stub, (_, { storage }) => {
    storage.sql.exec(`${PAST_TABLES.workspace?.[0]}${LATE_TABLES.workspace}`);
    storage.sql.exec(`INSERT INTO setting VALUES ('description', '"kept"')`);
    storage.sql.exec(`INSERT INTO setting VALUES ('container-life', '{"state":"up","number":3}')`);
    storage.sql.exec(
      "INSERT INTO webhook (id, url, events, links, origin, secret, createdAt) VALUES ('h', 'https://x.test/', '[]', 0, '', '', 1)",
    );
    storage.sql.exec("INSERT INTO heard (id) VALUES ('msg_1')");
    storage.sql.exec(`INSERT INTO word VALUES ('s', 'lost', '{"host":"h","wish":7,"reason":"gone"}')`);
    storage.sql.exec(`INSERT INTO word VALUES ('t', 'notices', '["turn.ended"]')`);
    storage.sql.exec("INSERT INTO deadline (name, at) VALUES ('words', 253402300799000)");
  });
  await evictDurableObject(stub);
  await runInDurableObject(stub, (_, { storage: { sql } }) => {
    expect(sql.exec("SELECT value FROM setting ORDER BY name DESC").toArray()).toEqual([
      { value: '"kept"' },
      { value: '{"state":"up","startNumber":3}' },
    ]);
    expect(sql.exec("SELECT id, isFailureAudited FROM webhook").toArray()).toEqual([
      { id: "h", isFailureAudited: 0 },
    ]);
    expect(sql.exec("SELECT id FROM seen_message").toArray()).toEqual([{ id: "msg_1" }]);
    const [message, types] = sql
      .exec<{ session: string; kind: string; body: string }>(
        "SELECT session, kind, body FROM session_message ORDER BY session",
      )
      .toArray();
    expect(message?.session).toBe("s");
    expect(JSON.parse(message?.body ?? "")).toEqual({ host: "h", processRequest: 7, reason: "gone" });
    expect(types).toEqual({ session: "t", kind: "webhook-types", body: '["turn.ended"]' });
    expect(sql.exec("SELECT name FROM deadline").toArray()).toEqual([{ name: "session-messages" }]);
  });
});

test("a session of version 1 keeps its webhook messages and their deadline", () =>
  withStorage((storage) => {
    const { sql } = storage;
    sql.exec(`${PAST_TABLES.session?.[0]}${LATE_TABLES.session}`);
    sql.exec("CREATE TABLE IF NOT EXISTS deadline (name TEXT PRIMARY KEY, at INTEGER NOT NULL)");
    sql.exec("INSERT INTO notice (seq, id, type, body) VALUES (4, 'msg_1', 'turn.ended', '{}')");
    sql.exec("INSERT INTO deadline (name, at) VALUES ('notices', 7)");
    new Tables(storage, SESSION_SCHEMA);
    expect(sql.exec("SELECT seq, id FROM webhook_message").toArray()).toEqual([{ seq: 4, id: "msg_1" }]);
    expect(sql.exec("SELECT * FROM deadline").toArray()).toEqual([{ name: "webhook-messages", at: 7 }]);
  }));

test("a stream of version 1 keeps its cursor", () =>
  withStorage((storage) => {
    storage.sql.exec(PAST_TABLES.connection?.[0] ?? "");
    storage.sql.exec(
      `INSERT INTO stream (id, log) VALUES ('s', '{"attach":3,"place":{"upTo":17,"skip":2}}'), ('t', NULL)`,
    );
    new Tables(storage, CONNECTION_SCHEMA);
    const rows = storage.sql
      .exec<{ cursor: string | null }>("SELECT cursor FROM stream ORDER BY id")
      .toArray();
    expect(rows.map(({ cursor }) => JSON.parse(cursor ?? "null"))).toEqual([
      { attachment: 3, seq: 17, part: 2 },
      null,
    ]);
  }));
