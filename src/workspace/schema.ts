import { hasColumn, hasTable, type Schema } from "../durable/schema.ts";

/** The tables of a WorkspaceState object. Its deadlines have a table of their own, see `durable/deadlines.ts`. */
export const WORKSPACE_SCHEMA: Schema = {
  name: "workspace",
  unnumbered: ["placement"],
  tables: `
  CREATE TABLE setting (name TEXT PRIMARY KEY, value TEXT NOT NULL);
  -- Sessions that have an agent process or wait for one.
  CREATE TABLE placement (
    session TEXT PRIMARY KEY, agent TEXT NOT NULL, host TEXT, instance TEXT,
    home TEXT, processRequest INTEGER NOT NULL DEFAULT 0, io TEXT NOT NULL DEFAULT 'host'
  );
  CREATE INDEX placement_by_host ON placement (host);
  CREATE TABLE host (
    name TEXT PRIMARY KEY, instance TEXT NOT NULL, state TEXT NOT NULL, root TEXT NOT NULL,
    about TEXT NOT NULL, capacity INTEGER NOT NULL, load TEXT, git TEXT,
    connectedAt INTEGER NOT NULL, lastSeenAt INTEGER NOT NULL,
    hasLeft INTEGER NOT NULL DEFAULT 0, isNotified INTEGER NOT NULL DEFAULT 0, token TEXT
  );
  -- Agents that each host offers.
  CREATE TABLE offer (
    host TEXT NOT NULL, id TEXT NOT NULL, name TEXT NOT NULL, isDefault INTEGER NOT NULL,
    available INTEGER NOT NULL, reason TEXT, description TEXT, version TEXT, initialize TEXT, error TEXT, PRIMARY KEY (host, id)
  );
  -- The outbox of messages to sessions. After a failed try a message waits until next, in milliseconds since the epoch.
  CREATE TABLE session_message (
    session TEXT NOT NULL, kind TEXT NOT NULL, body TEXT NOT NULL,
    tries INTEGER NOT NULL DEFAULT 0, next INTEGER NOT NULL DEFAULT 0, PRIMARY KEY (session, kind)
  );
  -- The tokens of the hosts' control sockets, and whether the host was told that its token expires soon.
  CREATE TABLE host_token (id TEXT PRIMARY KEY, caller TEXT NOT NULL, warned INTEGER NOT NULL DEFAULT 0);
  -- Each value is encrypted under a key derived from SECRETS_KEY.
  CREATE TABLE secret (name TEXT PRIMARY KEY, value TEXT NOT NULL, at INTEGER NOT NULL);
  CREATE TABLE webhook (
    id TEXT PRIMARY KEY, url TEXT NOT NULL, events TEXT NOT NULL, links INTEGER NOT NULL, origin TEXT NOT NULL,
    secret TEXT NOT NULL, createdAt INTEGER NOT NULL, lastAt INTEGER, lastStatus INTEGER, failingSince INTEGER,
    isFailureAudited INTEGER NOT NULL DEFAULT 0, dropped INTEGER NOT NULL DEFAULT 0,
    maker TEXT, pausedReason TEXT
  );
  CREATE TABLE delivery (
    seq INTEGER PRIMARY KEY AUTOINCREMENT, webhook TEXT NOT NULL, id TEXT NOT NULL, body TEXT NOT NULL,
    attempts INTEGER NOT NULL, next INTEGER NOT NULL
  );
  CREATE INDEX delivery_by_webhook ON delivery (webhook, next, seq);
  -- Ids of the newest messages that sessions handed over, so that a repeated one is not delivered again.
  CREATE TABLE seen_message (seq INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL UNIQUE);
`,
  upgrades: [
    fromUnnumbered,
    `ALTER TABLE placement ADD COLUMN io TEXT NOT NULL DEFAULT 'host';
     ALTER TABLE host ADD COLUMN token TEXT;`,
    // Earlier webhooks have no known maker, so a revocation would not reach them: they wait to be adopted.
    `ALTER TABLE webhook ADD COLUMN maker TEXT;
     ALTER TABLE webhook ADD COLUMN pausedReason TEXT;
     UPDATE webhook SET pausedReason = 'maker-unknown';`,
    `ALTER TABLE session_message ADD COLUMN tries INTEGER NOT NULL DEFAULT 0;
     ALTER TABLE session_message ADD COLUMN next INTEGER NOT NULL DEFAULT 0;`,
  ],
};

/** Unnumbered builds made some tables when they were first needed, and three of them under other names. */
function fromUnnumbered(sql: SqlStorage): void {
  for (const [before, after] of [
    ["word", "session_message"],
    ["host_pass", "host_token"],
    ["heard", "seen_message"],
  ] as const)
    if (hasTable(sql, before)) sql.exec(`ALTER TABLE ${before} RENAME TO ${after}`);
  for (const [table, before, after] of [
    ["placement", "wish", "processRequest"],
    ["host", "isLeft", "hasLeft"],
    ["host", "told", "isNotified"],
    ["webhook", "isNoted", "isFailureAudited"],
  ] as const)
    if (hasTable(sql, table) && hasColumn(sql, table, before))
      sql.exec(`ALTER TABLE ${table} RENAME COLUMN ${before} TO ${after}`);
  if (hasTable(sql, "session_message"))
    sql.exec(`
      UPDATE session_message SET body = replace(body, '"wish":', '"processRequest":');
      UPDATE session_message SET kind = 'webhook-types' WHERE kind = 'notices';
    `);
  if (hasTable(sql, "deadline"))
    sql.exec(`
      UPDATE deadline SET name = 'session-messages' WHERE name = 'words';
      UPDATE deadline SET name = 'view' WHERE name = 'show';
    `);
  if (hasTable(sql, "setting"))
    sql.exec(
      `UPDATE setting SET value = replace(value, '"number":', '"startNumber":') WHERE name = 'container-life'`,
    );
  // The first form knew agents without their hosts.
  if (!hasColumn(sql, "placement", "home"))
    sql.exec(`
      DROP TABLE IF EXISTS agent;
      ALTER TABLE placement ADD COLUMN home TEXT;
      ALTER TABLE placement ADD COLUMN processRequest INTEGER NOT NULL DEFAULT 0;
    `);
  sql.exec(`
    CREATE TABLE IF NOT EXISTS setting (name TEXT PRIMARY KEY, value TEXT NOT NULL);
    CREATE INDEX IF NOT EXISTS placement_by_host ON placement (host);
    CREATE TABLE IF NOT EXISTS host (
      name TEXT PRIMARY KEY, instance TEXT NOT NULL, state TEXT NOT NULL, root TEXT NOT NULL,
      about TEXT NOT NULL, capacity INTEGER NOT NULL, load TEXT, git TEXT,
      connectedAt INTEGER NOT NULL, lastSeenAt INTEGER NOT NULL,
      hasLeft INTEGER NOT NULL DEFAULT 0, isNotified INTEGER NOT NULL DEFAULT 0
    );
    CREATE TABLE IF NOT EXISTS offer (
      host TEXT NOT NULL, id TEXT NOT NULL, name TEXT NOT NULL, isDefault INTEGER NOT NULL,
      available INTEGER NOT NULL, reason TEXT, description TEXT, version TEXT, initialize TEXT, error TEXT, PRIMARY KEY (host, id)
    );
    CREATE TABLE IF NOT EXISTS session_message (
      session TEXT NOT NULL, kind TEXT NOT NULL, body TEXT NOT NULL, PRIMARY KEY (session, kind)
    );
    CREATE TABLE IF NOT EXISTS host_token (
      id TEXT PRIMARY KEY, caller TEXT NOT NULL, warned INTEGER NOT NULL DEFAULT 0
    );
    CREATE TABLE IF NOT EXISTS secret (name TEXT PRIMARY KEY, value TEXT NOT NULL, at INTEGER NOT NULL);
    CREATE TABLE IF NOT EXISTS webhook (
      id TEXT PRIMARY KEY, url TEXT NOT NULL, events TEXT NOT NULL, links INTEGER NOT NULL, origin TEXT NOT NULL,
      secret TEXT NOT NULL, createdAt INTEGER NOT NULL, lastAt INTEGER, lastStatus INTEGER, failingSince INTEGER,
      isFailureAudited INTEGER NOT NULL DEFAULT 0, dropped INTEGER NOT NULL DEFAULT 0
    );
    CREATE TABLE IF NOT EXISTS delivery (
      seq INTEGER PRIMARY KEY AUTOINCREMENT, webhook TEXT NOT NULL, id TEXT NOT NULL, body TEXT NOT NULL,
      attempts INTEGER NOT NULL, next INTEGER NOT NULL
    );
    CREATE INDEX IF NOT EXISTS delivery_by_webhook ON delivery (webhook, next, seq);
    CREATE TABLE IF NOT EXISTS seen_message (seq INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL UNIQUE);
  `);
}
