import { hasColumn, hasTable, type Schema } from "../durable/schema.ts";

/** Earlier revocations of sessions do not name the workspace, so only administrators of the tenant see them. */
const WITH_WORKSPACES = `
  CREATE TABLE revocation_3 (
    id TEXT PRIMARY KEY, kind TEXT NOT NULL, value TEXT NOT NULL, workspace TEXT NOT NULL,
    by_subject TEXT NOT NULL, at INTEGER NOT NULL, until INTEGER,
    UNIQUE (kind, value, workspace)
  );
  INSERT INTO revocation_3 SELECT id, kind, value, '', by_subject, at, until FROM revocation;
  DROP TABLE revocation;
  ALTER TABLE revocation_3 RENAME TO revocation;
  ALTER TABLE socket ADD COLUMN workspace TEXT;
`;

/**
 * Links of version 3 were unsigned and named no token: such a link is refused before the tenant is asked, so its row
 * goes. Workspaces report the makers of their webhooks themselves.
 */
const WITH_MAKERS = `
  ALTER TABLE socket ADD COLUMN isEnding INTEGER NOT NULL DEFAULT 0;
  CREATE INDEX socket_ending ON socket (isEnding) WHERE isEnding = 1;
  CREATE INDEX audit_by_kind ON audit (kind, seq);
  CREATE INDEX audit_by_subject ON audit (kind, subject, seq);
  CREATE TABLE audit_count (
    kind TEXT NOT NULL, subject TEXT NOT NULL, entries INTEGER NOT NULL, PRIMARY KEY (kind, subject)
  );
  INSERT INTO audit_count SELECT kind, '', count(*) FROM audit GROUP BY kind;
  INSERT INTO audit_count SELECT kind, subject, count(*) FROM audit WHERE subject != '' GROUP BY kind, subject;
  ALTER TABLE share ADD COLUMN by_jti TEXT;
  ALTER TABLE share ADD COLUMN by_workspace TEXT;
  DELETE FROM share;
  CREATE INDEX share_by_session ON share (session);
  CREATE INDEX share_by_subject ON share (by_subject);
  CREATE INDEX share_by_jti ON share (by_jti);
  CREATE TABLE answer_link (
    id TEXT PRIMARY KEY, session TEXT NOT NULL, by_subject TEXT NOT NULL, by_jti TEXT, by_workspace TEXT,
    expires INTEGER NOT NULL
  );
  CREATE INDEX answer_link_by_subject ON answer_link (by_subject);
  CREATE INDEX answer_link_by_jti ON answer_link (by_jti);
  CREATE INDEX answer_link_by_session ON answer_link (session);
  CREATE INDEX answer_link_expires ON answer_link (expires);
  CREATE TABLE webhook (
    id TEXT PRIMARY KEY, workspace TEXT NOT NULL, by_subject TEXT NOT NULL, by_jti TEXT, by_workspace TEXT,
    changes INTEGER NOT NULL DEFAULT 0
  );
  CREATE INDEX webhook_by_subject ON webhook (by_subject);
  CREATE INDEX webhook_by_jti ON webhook (by_jti);
`;

const WITH_LOGOUTS = "CREATE TABLE logout (jti TEXT PRIMARY KEY, expires INTEGER NOT NULL)";

/** Sockets and quotas are with the objects of their subjects. The tables `socket` and `quota` stay for one release. */
const WITH_SUBJECTS = `
  CREATE TABLE token (
    subject TEXT NOT NULL, jti TEXT NOT NULL, expires INTEGER NOT NULL, PRIMARY KEY (subject, jti)
  ) WITHOUT ROWID;
  CREATE INDEX token_by_jti ON token (jti);
  CREATE INDEX token_expires ON token (expires);
  CREATE TABLE subject_order (
    subject TEXT PRIMARY KEY, changes INTEGER NOT NULL, endsAll INTEGER NOT NULL
  ) WITHOUT ROWID;
  CREATE TABLE ending_connection (id TEXT PRIMARY KEY) WITHOUT ROWID;
`;

/** Statements that forget, count or find rows read those rows alone. */
const WITH_INDEXES = `
  CREATE INDEX revocation_until ON revocation (until);
  CREATE INDEX revocation_by_workspace ON revocation (workspace, kind);
  CREATE INDEX revocation_by_maker ON revocation (by_subject);
  CREATE INDEX share_expires ON share (expires);
  CREATE INDEX webhook_changed ON webhook (changes) WHERE changes > 0;
  CREATE INDEX logout_expires ON logout (expires);
`;

/** Statements of a trigger: an order for each of these subjects. */
const orderFor = (subjects: string) => `
    INSERT INTO subject_order (subject, changes, endsAll) SELECT subject, 1, 0 FROM (${subjects}) WHERE true
      ON CONFLICT (subject) DO UPDATE SET changes = changes + 1;`;

/** The subjects that a revocation is about: those of the tokens, and the bearers of links that their subjects made. */
const revokedBy = (row: "new" | "old") => {
  const subject = `iif(${row}.kind = 'subject', ${row}.value, NULL)`;
  const jti = `iif(${row}.kind = 'jti', ${row}.value, NULL)`;
  return `
      SELECT subject FROM token WHERE subject = ${subject}
      UNION SELECT subject FROM token WHERE jti = ${jti}
      UNION SELECT token.subject FROM share JOIN token ON token.subject = 'share:' || share.id
        WHERE share.by_subject = ${subject}
      UNION SELECT token.subject FROM share JOIN token ON token.subject = 'share:' || share.id
        WHERE share.by_jti = ${jti}`;
};

/**
 * The previous release revokes without orders to the objects of subjects, which it does not have. After a rollback the
 * storage itself notes the orders, and the next release carries them out.
 */
const TRIGGERS = `
  CREATE TRIGGER revocation_made AFTER INSERT ON revocation BEGIN ${orderFor(revokedBy("new"))} END;
  CREATE TRIGGER revocation_changed AFTER UPDATE ON revocation BEGIN ${orderFor(revokedBy("new"))} END;
  CREATE TRIGGER revocation_ended AFTER DELETE ON revocation BEGIN ${orderFor(revokedBy("old"))} END;
  CREATE TRIGGER logout_made AFTER INSERT ON logout BEGIN ${orderFor("SELECT DISTINCT subject FROM token WHERE jti = new.jti")} END;
  CREATE TRIGGER share_removed AFTER DELETE ON share BEGIN ${orderFor("SELECT DISTINCT subject FROM token WHERE subject = 'share:' || old.id")} END;
`;

/** Earlier versions with subjects may have been rolled back as well, and nothing has noted the changes. */
const WITH_NOTED_CHANGES = `${TRIGGERS}
  INSERT OR IGNORE INTO subject_order (subject, changes, endsAll) SELECT DISTINCT subject, 1, 0 FROM token;
`;

/** The tables of a TenantState object. */
export const TENANT_SCHEMA: Schema = {
  name: "tenant",
  unnumbered: ["revocation", "socket", "quota", "opening", "share"],
  tables: `
  CREATE TABLE revocation (
    -- The workspace of a session, or the one whose own tokens are revoked; empty for the whole tenant.
    id TEXT PRIMARY KEY, kind TEXT NOT NULL, value TEXT NOT NULL, workspace TEXT NOT NULL,
    by_subject TEXT NOT NULL, at INTEGER NOT NULL, until INTEGER,
    UNIQUE (kind, value, workspace)
  );
  CREATE INDEX revocation_until ON revocation (until);
  CREATE INDEX revocation_by_workspace ON revocation (workspace, kind);
  CREATE INDEX revocation_by_maker ON revocation (by_subject);
  -- Tokens that were met, with their subjects; an empty jti stands for tokens without one. Seconds since the epoch.
  CREATE TABLE token (
    subject TEXT NOT NULL, jti TEXT NOT NULL, expires INTEGER NOT NULL, PRIMARY KEY (subject, jti)
  ) WITHOUT ROWID;
  CREATE INDEX token_by_jti ON token (jti);
  CREATE INDEX token_expires ON token (expires);
  -- Subjects whose objects have not confirmed the latest changes of their revocations.
  CREATE TABLE subject_order (
    subject TEXT PRIMARY KEY, changes INTEGER NOT NULL, endsAll INTEGER NOT NULL
  ) WITHOUT ROWID;
  -- Connections of revoked sessions that have not confirmed their end.
  CREATE TABLE ending_connection (id TEXT PRIMARY KEY) WITHOUT ROWID;
  -- Sockets that objects of the previous release have registered. A row never outlives its token.
  CREATE TABLE socket (
    id TEXT PRIMARY KEY, kind TEXT NOT NULL, subject TEXT NOT NULL, jti TEXT, workspace TEXT, expires INTEGER NOT NULL,
    holder TEXT NOT NULL, name TEXT NOT NULL, isEnding INTEGER NOT NULL DEFAULT 0
  );
  CREATE INDEX socket_subject ON socket (subject);
  CREATE INDEX socket_jti ON socket (jti);
  CREATE INDEX socket_expires ON socket (expires);
  CREATE INDEX socket_ending ON socket (isEnding) WHERE isEnding = 1;
  CREATE TABLE audit (
    seq INTEGER PRIMARY KEY AUTOINCREMENT, at INTEGER NOT NULL, kind TEXT NOT NULL, subject TEXT NOT NULL,
    workspace TEXT, session TEXT, detail TEXT NOT NULL
  );
  CREATE INDEX audit_by_kind ON audit (kind, seq);
  CREATE INDEX audit_by_subject ON audit (kind, subject, seq);
  -- How many entries of a kind the audit has, in total (subject '') and by subject.
  CREATE TABLE audit_count (
    kind TEXT NOT NULL, subject TEXT NOT NULL, entries INTEGER NOT NULL, PRIMARY KEY (kind, subject)
  );
  -- Of the previous release, which may come back: how much of each quota a subject was given.
  CREATE TABLE quota (
    subject TEXT NOT NULL, quota TEXT NOT NULL, hour INTEGER NOT NULL, given INTEGER NOT NULL,
    PRIMARY KEY (subject, quota)
  );
  -- Links to sessions. Of the secret in a link only the hash is stored.
  CREATE TABLE share (
    id TEXT PRIMARY KEY, hash TEXT NOT NULL UNIQUE, session TEXT NOT NULL, workspace TEXT NOT NULL,
    by_subject TEXT NOT NULL, by_jti TEXT, by_workspace TEXT, at INTEGER NOT NULL, expires INTEGER NOT NULL,
    redact INTEGER NOT NULL DEFAULT 0
  );
  CREATE INDEX share_by_session ON share (session);
  CREATE INDEX share_by_subject ON share (by_subject);
  CREATE INDEX share_by_jti ON share (by_jti);
  CREATE INDEX share_expires ON share (expires);
  -- Makers of answer links. The links themselves are signed and stored nowhere.
  CREATE TABLE answer_link (
    id TEXT PRIMARY KEY, session TEXT NOT NULL, by_subject TEXT NOT NULL, by_jti TEXT, by_workspace TEXT,
    expires INTEGER NOT NULL
  );
  CREATE INDEX answer_link_by_subject ON answer_link (by_subject);
  CREATE INDEX answer_link_by_jti ON answer_link (by_jti);
  CREATE INDEX answer_link_by_session ON answer_link (session);
  CREATE INDEX answer_link_expires ON answer_link (expires);
  -- Makers of webhooks. The changes are those of revocations that the webhook's workspace has not confirmed.
  CREATE TABLE webhook (
    id TEXT PRIMARY KEY, workspace TEXT NOT NULL, by_subject TEXT NOT NULL, by_jti TEXT, by_workspace TEXT,
    changes INTEGER NOT NULL DEFAULT 0
  );
  CREATE INDEX webhook_by_subject ON webhook (by_subject);
  CREATE INDEX webhook_by_jti ON webhook (by_jti);
  CREATE INDEX webhook_changed ON webhook (changes) WHERE changes > 0;
  -- Tokens whose bearers have logged out, until the tokens expire. Seconds since the epoch.
  CREATE TABLE logout (jti TEXT PRIMARY KEY, expires INTEGER NOT NULL);
  CREATE INDEX logout_expires ON logout (expires);
  ${TRIGGERS}
`,
  upgrades: [
    ...[fromUnnumbered, WITH_WORKSPACES, WITH_MAKERS, WITH_LOGOUTS, WITH_SUBJECTS, WITH_INDEXES],
    WITH_NOTED_CHANGES,
  ],
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
