/**
 * The tables of every past version of each object, as the builds of the time made them: fixtures, never edited.
 * Version 1 stands for the builds before the first release, which kept no version number.
 */
export const PAST_TABLES: Readonly<Record<string, readonly string[]>> = {
  session: [
    `CREATE TABLE log (
       seq INTEGER PRIMARY KEY, at INTEGER NOT NULL, ids TEXT NOT NULL, context TEXT NOT NULL, heads TEXT NOT NULL,
       body TEXT NOT NULL
     );
     CREATE TABLE log_part (seq INTEGER NOT NULL, part INTEGER NOT NULL, body TEXT NOT NULL, PRIMARY KEY (seq, part));
     CREATE TABLE segment (first INTEGER PRIMARY KEY, last INTEGER NOT NULL, key TEXT NOT NULL, chars INTEGER NOT NULL);
     CREATE TABLE pinned (seq INTEGER PRIMARY KEY, line TEXT NOT NULL);
     CREATE TABLE session (id TEXT NOT NULL);
     CREATE TABLE snapshot (one INTEGER PRIMARY KEY CHECK (one = 1), seq INTEGER NOT NULL, state TEXT NOT NULL);
     CREATE TABLE deadline (name TEXT PRIMARY KEY, at INTEGER NOT NULL);
     CREATE TABLE client (
       connection TEXT PRIMARY KEY, attach INTEGER NOT NULL, start INTEGER NOT NULL, merge INTEGER NOT NULL,
       received INTEGER NOT NULL, about TEXT NOT NULL
     );`,
  ],
  connection: [
    `CREATE TABLE connection (state TEXT NOT NULL, seen INTEGER NOT NULL);
     CREATE TABLE stream (
       id TEXT PRIMARY KEY, attached INTEGER NOT NULL DEFAULT 0, sent INTEGER NOT NULL DEFAULT 0,
       dropped INTEGER NOT NULL DEFAULT 0, log TEXT
     );
     CREATE TABLE outbox (
       n INTEGER PRIMARY KEY AUTOINCREMENT, stream TEXT NOT NULL, chars INTEGER NOT NULL, re INTEGER UNIQUE
     );
     CREATE TABLE outbox_part (n INTEGER NOT NULL, part INTEGER NOT NULL, body TEXT NOT NULL, PRIMARY KEY (n, part));
     CREATE TABLE expected (n INTEGER PRIMARY KEY, session TEXT NOT NULL, id TEXT NOT NULL, seq INTEGER);`,
  ],
  workspace: [
    `CREATE TABLE setting (name TEXT PRIMARY KEY, value TEXT NOT NULL);
     CREATE TABLE placement (
       session TEXT PRIMARY KEY, agent TEXT NOT NULL, host TEXT, instance TEXT, home TEXT,
       wish INTEGER NOT NULL DEFAULT 0
     );
     CREATE INDEX placement_by_host ON placement (host);
     CREATE TABLE host (
       name TEXT PRIMARY KEY, instance TEXT NOT NULL, state TEXT NOT NULL, root TEXT NOT NULL,
       about TEXT NOT NULL, capacity INTEGER NOT NULL, load TEXT, git TEXT,
       connectedAt INTEGER NOT NULL, lastSeenAt INTEGER NOT NULL,
       isLeft INTEGER NOT NULL DEFAULT 0, told INTEGER NOT NULL DEFAULT 0
     );
     CREATE TABLE offer (
       host TEXT NOT NULL, id TEXT NOT NULL, name TEXT NOT NULL, isDefault INTEGER NOT NULL,
       available INTEGER NOT NULL, reason TEXT, description TEXT, version TEXT, initialize TEXT, error TEXT,
       PRIMARY KEY (host, id)
     );
     CREATE TABLE word (session TEXT NOT NULL, kind TEXT NOT NULL, body TEXT NOT NULL, PRIMARY KEY (session, kind));
     CREATE TABLE deadline (name TEXT PRIMARY KEY, at INTEGER NOT NULL);`,
  ],
  tenant: [
    `CREATE TABLE revocation (
       id TEXT PRIMARY KEY, kind TEXT NOT NULL, value TEXT NOT NULL, by_subject TEXT NOT NULL,
       at INTEGER NOT NULL, until INTEGER, UNIQUE (kind, value)
     );
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
     );`,
  ],
};

/** Tables that version 1 made only when they were first needed. */
export const LATE_TABLES: Readonly<Record<string, string>> = {
  session: `
    CREATE TABLE hidden (reference TEXT PRIMARY KEY, value TEXT NOT NULL);
    CREATE TABLE notice (
      seq INTEGER PRIMARY KEY, id TEXT NOT NULL, type TEXT NOT NULL, body TEXT NOT NULL, lost INTEGER NOT NULL DEFAULT 0
    );`,
  connection: "",
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
