import { hasColumn, hasTable, type Schema } from "../durable/schema.ts";

/** The tables of a TenantState object. */
export const TENANT_SCHEMA: Schema = {
  name: "tenant",
  unnumbered: ["revocation", "socket", "quota", "opening", "share"],
  tables: `
  CREATE TABLE revocation (
    id TEXT PRIMARY KEY, kind TEXT NOT NULL, value TEXT NOT NULL, by_subject TEXT NOT NULL,
    at INTEGER NOT NULL, until INTEGER,
    UNIQUE (kind, value)
  );
  -- Open sockets and HTTP connections with their tokens. A row may outlive its socket, but never its token.
  CREATE TABLE socket (
    id TEXT PRIMARY KEY, kind TEXT NOT NULL, subject TEXT NOT NULL, jti TEXT, expires INTEGER NOT NULL,
    holder TEXT NOT NULL, name TEXT NOT NULL
  );
  CREATE INDEX socket_subject ON socket (subject);
  CREATE INDEX socket_jti ON socket (jti);
  CREATE INDEX socket_expires ON socket (expires);
  CREATE TABLE audit (
    seq INTEGER PRIMARY KEY AUTOINCREMENT, at INTEGER NOT NULL, kind TEXT NOT NULL, subject TEXT NOT NULL,
    workspace TEXT, session TEXT, detail TEXT NOT NULL
  );
  -- How much of each quota a subject was given in the current hour.
  CREATE TABLE quota (
    subject TEXT NOT NULL, quota TEXT NOT NULL, hour INTEGER NOT NULL, given INTEGER NOT NULL,
    PRIMARY KEY (subject, quota)
  );
  -- Links to sessions. Of the secret in a link only the hash is stored.
  CREATE TABLE share (
    id TEXT PRIMARY KEY, hash TEXT NOT NULL UNIQUE, session TEXT NOT NULL, workspace TEXT NOT NULL,
    by_subject TEXT NOT NULL, at INTEGER NOT NULL, expires INTEGER NOT NULL, redact INTEGER NOT NULL DEFAULT 0
  );
`,
  upgrades: [fromUnnumbered],
};

/** Unnumbered builds made groups of tables when they were first needed. */
function fromUnnumbered(sql: SqlStorage): void {
  sql.exec(`
    CREATE TABLE IF NOT EXISTS revocation (
      id TEXT PRIMARY KEY, kind TEXT NOT NULL, value TEXT NOT NULL, by_subject TEXT NOT NULL,
      at INTEGER NOT NULL, until INTEGER,
      UNIQUE (kind, value)
    );
    CREATE TABLE IF NOT EXISTS socket (
      id TEXT PRIMARY KEY, kind TEXT NOT NULL, subject TEXT NOT NULL, jti TEXT, expires INTEGER NOT NULL,
      holder TEXT NOT NULL, name TEXT NOT NULL
    );
    CREATE INDEX IF NOT EXISTS socket_subject ON socket (subject);
    CREATE INDEX IF NOT EXISTS socket_jti ON socket (jti);
    CREATE INDEX IF NOT EXISTS socket_expires ON socket (expires);
    CREATE TABLE IF NOT EXISTS audit (
      seq INTEGER PRIMARY KEY AUTOINCREMENT, at INTEGER NOT NULL, kind TEXT NOT NULL, subject TEXT NOT NULL,
      workspace TEXT, session TEXT, detail TEXT NOT NULL
    );
    CREATE TABLE IF NOT EXISTS quota (
      subject TEXT NOT NULL, quota TEXT NOT NULL, hour INTEGER NOT NULL, given INTEGER NOT NULL,
      PRIMARY KEY (subject, quota)
    );
    CREATE TABLE IF NOT EXISTS share (
      id TEXT PRIMARY KEY, hash TEXT NOT NULL UNIQUE, session TEXT NOT NULL, workspace TEXT NOT NULL,
      by_subject TEXT NOT NULL, at INTEGER NOT NULL, expires INTEGER NOT NULL, redact INTEGER NOT NULL DEFAULT 0
    );
  `);
  // The first links showed the whole session.
  if (!hasColumn(sql, "share", "redact"))
    sql.exec("ALTER TABLE share ADD COLUMN redact INTEGER NOT NULL DEFAULT 0");
  // The first quota counted sessions alone.
  if (hasTable(sql, "opening"))
    sql.exec(`
      INSERT INTO quota SELECT subject, 'sessions', max(hour), sessions FROM opening GROUP BY subject;
      DROP TABLE opening;
    `);
}
