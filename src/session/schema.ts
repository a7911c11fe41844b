import { hasColumn, hasTable, type Schema } from "../durable/schema.ts";

/** The tables of an AcpSession object. Its deadlines have a table of their own, see `durable/deadlines.ts`. */
export const SESSION_SCHEMA: Schema = {
  name: "session",
  unnumbered: ["log"],
  tables: `
  -- One row holds the events that arrived together and share a context.
  CREATE TABLE log (
    seq INTEGER PRIMARY KEY,  -- of the row's first event
    at INTEGER NOT NULL,
    ids TEXT NOT NULL,        -- the common beginning of the row's event ids
    context TEXT NOT NULL,
    heads TEXT NOT NULL,
    body TEXT NOT NULL
  );
  -- The rest of a body that is too long for one row.
  CREATE TABLE log_part (
    seq INTEGER NOT NULL,
    part INTEGER NOT NULL,
    body TEXT NOT NULL,
    PRIMARY KEY (seq, part)
  );
  -- Parts of the log that moved to the archive, and the one archived event that is needed at hand.
  CREATE TABLE segment (first INTEGER PRIMARY KEY, last INTEGER NOT NULL, key TEXT NOT NULL, chars INTEGER NOT NULL);
  CREATE TABLE pinned (seq INTEGER PRIMARY KEY, line TEXT NOT NULL);
  -- One row once the session exists. An import that is still being written has none.
  CREATE TABLE session (id TEXT NOT NULL);
  CREATE TABLE snapshot (one INTEGER PRIMARY KEY CHECK (one = 1), seq INTEGER NOT NULL, state TEXT NOT NULL);
  -- Attached clients: the request that attached each, where its reading began, and the number of its last frame.
  CREATE TABLE client (
    connection TEXT PRIMARY KEY,
    attach INTEGER NOT NULL,
    start INTEGER NOT NULL,
    merge INTEGER NOT NULL,
    received INTEGER NOT NULL,
    -- JSON: the agent's requests to offer the client, who the client is, and where its first reading began.
    about TEXT NOT NULL
  );
  -- Credentials that clients gave the agent; no log has them. An answer to a form is kept until the agent has it.
  CREATE TABLE concealed_value (
    reference TEXT PRIMARY KEY,
    value TEXT NOT NULL,
    answer INTEGER            -- the event of the answer to a form; null for other credentials
  );
  -- Webhook messages that the workspace has not taken over yet.
  CREATE TABLE webhook_message (
    seq INTEGER PRIMARY KEY, id TEXT NOT NULL, type TEXT NOT NULL, body TEXT NOT NULL, lost INTEGER NOT NULL DEFAULT 0
  );
`,
  upgrades: [fromUnnumbered, addAnswers],
};

/** Values that are kept already go with their process. */
function addAnswers(sql: SqlStorage): void {
  if (!hasColumn(sql, "concealed_value", "answer"))
    sql.exec("ALTER TABLE concealed_value ADD COLUMN answer INTEGER");
}

/** Unnumbered builds made most tables when they were first needed, and two of them under other names. */
function fromUnnumbered(sql: SqlStorage): void {
  // Rows of the first form do not say who a client is. A client whose socket is still open attaches with its next message.
  if (!hasColumn(sql, "client", "about")) sql.exec("DROP TABLE IF EXISTS client");
  if (hasTable(sql, "hidden")) sql.exec("ALTER TABLE hidden RENAME TO concealed_value");
  if (hasTable(sql, "notice")) sql.exec("ALTER TABLE notice RENAME TO webhook_message");
  if (hasTable(sql, "deadline"))
    sql.exec("UPDATE deadline SET name = 'webhook-messages' WHERE name = 'notices'");
  sql.exec(`
    CREATE TABLE IF NOT EXISTS session (id TEXT NOT NULL);
    CREATE TABLE IF NOT EXISTS snapshot (
      one INTEGER PRIMARY KEY CHECK (one = 1), seq INTEGER NOT NULL, state TEXT NOT NULL
    );
    CREATE TABLE IF NOT EXISTS client (
      connection TEXT PRIMARY KEY, attach INTEGER NOT NULL, start INTEGER NOT NULL, merge INTEGER NOT NULL,
      received INTEGER NOT NULL, about TEXT NOT NULL
    );
    CREATE TABLE IF NOT EXISTS concealed_value (reference TEXT PRIMARY KEY, value TEXT NOT NULL);
    CREATE TABLE IF NOT EXISTS webhook_message (
      seq INTEGER PRIMARY KEY, id TEXT NOT NULL, type TEXT NOT NULL, body TEXT NOT NULL, lost INTEGER NOT NULL DEFAULT 0
    );
  `);
}
