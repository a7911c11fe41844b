/** Tables that version 1 made only when they were first needed. */
export const LATE_TABLES: Readonly<Record<string, string>> = {
  session: `
    CREATE TABLE hidden (reference TEXT PRIMARY KEY, value TEXT NOT NULL);
    CREATE TABLE notice (
      seq INTEGER PRIMARY KEY, id TEXT NOT NULL, type TEXT NOT NULL, body TEXT NOT NULL, lost INTEGER NOT NULL DEFAULT 0
    );`,
  connection: "",
  subject: "",
  workspace: `
    CREATE TABLE host_pass (id TEXT PRIMARY KEY, caller TEXT NOT NULL, warned INTEGER NOT NULL DEFAULT 0);
    CREATE TABLE secret (name TEXT PRIMARY KEY, value TEXT NOT NULL, at INTEGER NOT NULL);
    CREATE TABLE webhook (
      id TEXT PRIMARY KEY, url TEXT NOT NULL, events TEXT NOT NULL, links INTEGER NOT NULL, origin TEXT NOT NULL,
      secret TEXT NOT NULL, createdAt INTEGER NOT NULL, lastAt INTEGER, lastStatus INTEGER, failingSince INTEGER,
      isNoted INTEGER NOT NULL DEFAULT 0, dropped INTEGER NOT NULL DEFAULT 0
    );
    CREATE TABLE delivery (
      seq INTEGER PRIMARY KEY AUTOINCREMENT, webhook TEXT NOT NULL, id TEXT NOT NULL, body TEXT NOT NULL,
      attempts INTEGER NOT NULL, next INTEGER NOT NULL
    );
    CREATE INDEX delivery_by_webhook ON delivery (webhook, next, seq);
    CREATE TABLE heard (seq INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL UNIQUE);`,
  tenant: `
    CREATE TABLE quota (
      subject TEXT NOT NULL, quota TEXT NOT NULL, hour INTEGER NOT NULL, given INTEGER NOT NULL,
      PRIMARY KEY (subject, quota)
    );
    CREATE TABLE share (
      id TEXT PRIMARY KEY, hash TEXT NOT NULL UNIQUE, session TEXT NOT NULL, workspace TEXT NOT NULL,
      by_subject TEXT NOT NULL, at INTEGER NOT NULL, expires INTEGER NOT NULL, redact INTEGER NOT NULL DEFAULT 0
    );`,
};
