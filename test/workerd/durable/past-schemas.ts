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
    `CREATE TABLE log (
       seq INTEGER PRIMARY KEY, at INTEGER NOT NULL, ids TEXT NOT NULL, context TEXT NOT NULL, heads TEXT NOT NULL,
       body TEXT NOT NULL
     );
     CREATE TABLE log_part (seq INTEGER NOT NULL, part INTEGER NOT NULL, body TEXT NOT NULL, PRIMARY KEY (seq, part));
     CREATE TABLE segment (first INTEGER PRIMARY KEY, last INTEGER NOT NULL, key TEXT NOT NULL, chars INTEGER NOT NULL);
     CREATE TABLE pinned (seq INTEGER PRIMARY KEY, line TEXT NOT NULL);
     CREATE TABLE session (id TEXT NOT NULL);
     CREATE TABLE snapshot (one INTEGER PRIMARY KEY CHECK (one = 1), seq INTEGER NOT NULL, state TEXT NOT NULL);
     CREATE TABLE client (
       connection TEXT PRIMARY KEY, attach INTEGER NOT NULL, start INTEGER NOT NULL, merge INTEGER NOT NULL,
       received INTEGER NOT NULL, about TEXT NOT NULL
     );
     CREATE TABLE concealed_value (reference TEXT PRIMARY KEY, value TEXT NOT NULL);
     CREATE TABLE webhook_message (
       seq INTEGER PRIMARY KEY, id TEXT NOT NULL, type TEXT NOT NULL, body TEXT NOT NULL, lost INTEGER NOT NULL DEFAULT 0
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
    `CREATE TABLE setting (name TEXT PRIMARY KEY, value TEXT NOT NULL);
     CREATE TABLE placement (
       session TEXT PRIMARY KEY, agent TEXT NOT NULL, host TEXT, instance TEXT,
       home TEXT, processRequest INTEGER NOT NULL DEFAULT 0
     );
     CREATE INDEX placement_by_host ON placement (host);
     CREATE TABLE host (
       name TEXT PRIMARY KEY, instance TEXT NOT NULL, state TEXT NOT NULL, root TEXT NOT NULL,
       about TEXT NOT NULL, capacity INTEGER NOT NULL, load TEXT, git TEXT,
       connectedAt INTEGER NOT NULL, lastSeenAt INTEGER NOT NULL,
       hasLeft INTEGER NOT NULL DEFAULT 0, isNotified INTEGER NOT NULL DEFAULT 0
     );
     CREATE TABLE offer (
       host TEXT NOT NULL, id TEXT NOT NULL, name TEXT NOT NULL, isDefault INTEGER NOT NULL,
       available INTEGER NOT NULL, reason TEXT, description TEXT, version TEXT, initialize TEXT, error TEXT, PRIMARY KEY (host, id)
     );
     CREATE TABLE session_message (
       session TEXT NOT NULL, kind TEXT NOT NULL, body TEXT NOT NULL, PRIMARY KEY (session, kind)
     );
     CREATE TABLE host_token (id TEXT PRIMARY KEY, caller TEXT NOT NULL, warned INTEGER NOT NULL DEFAULT 0);
     CREATE TABLE secret (name TEXT PRIMARY KEY, value TEXT NOT NULL, at INTEGER NOT NULL);
     CREATE TABLE webhook (
       id TEXT PRIMARY KEY, url TEXT NOT NULL, events TEXT NOT NULL, links INTEGER NOT NULL, origin TEXT NOT NULL,
       secret TEXT NOT NULL, createdAt INTEGER NOT NULL, lastAt INTEGER, lastStatus INTEGER, failingSince INTEGER,
       isFailureAudited INTEGER NOT NULL DEFAULT 0, dropped INTEGER NOT NULL DEFAULT 0
     );
     CREATE TABLE delivery (
       seq INTEGER PRIMARY KEY AUTOINCREMENT, webhook TEXT NOT NULL, id TEXT NOT NULL, body TEXT NOT NULL,
       attempts INTEGER NOT NULL, next INTEGER NOT NULL
     );
     CREATE INDEX delivery_by_webhook ON delivery (webhook, next, seq);
     CREATE TABLE seen_message (seq INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL UNIQUE);`,
    `CREATE TABLE setting (name TEXT PRIMARY KEY, value TEXT NOT NULL);
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
     CREATE TABLE offer (
       host TEXT NOT NULL, id TEXT NOT NULL, name TEXT NOT NULL, isDefault INTEGER NOT NULL,
       available INTEGER NOT NULL, reason TEXT, description TEXT, version TEXT, initialize TEXT, error TEXT, PRIMARY KEY (host, id)
     );
     CREATE TABLE session_message (
       session TEXT NOT NULL, kind TEXT NOT NULL, body TEXT NOT NULL, PRIMARY KEY (session, kind)
     );
     CREATE TABLE host_token (id TEXT PRIMARY KEY, caller TEXT NOT NULL, warned INTEGER NOT NULL DEFAULT 0);
     CREATE TABLE secret (name TEXT PRIMARY KEY, value TEXT NOT NULL, at INTEGER NOT NULL);
     CREATE TABLE webhook (
       id TEXT PRIMARY KEY, url TEXT NOT NULL, events TEXT NOT NULL, links INTEGER NOT NULL, origin TEXT NOT NULL,
       secret TEXT NOT NULL, createdAt INTEGER NOT NULL, lastAt INTEGER, lastStatus INTEGER, failingSince INTEGER,
       isFailureAudited INTEGER NOT NULL DEFAULT 0, dropped INTEGER NOT NULL DEFAULT 0
     );
     CREATE TABLE delivery (
       seq INTEGER PRIMARY KEY AUTOINCREMENT, webhook TEXT NOT NULL, id TEXT NOT NULL, body TEXT NOT NULL,
       attempts INTEGER NOT NULL, next INTEGER NOT NULL
     );
     CREATE INDEX delivery_by_webhook ON delivery (webhook, next, seq);
     CREATE TABLE seen_message (seq INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL UNIQUE);`,
    `CREATE TABLE setting (name TEXT PRIMARY KEY, value TEXT NOT NULL);
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
     CREATE TABLE offer (
       host TEXT NOT NULL, id TEXT NOT NULL, name TEXT NOT NULL, isDefault INTEGER NOT NULL,
       available INTEGER NOT NULL, reason TEXT, description TEXT, version TEXT, initialize TEXT, error TEXT, PRIMARY KEY (host, id)
     );
     CREATE TABLE session_message (
       session TEXT NOT NULL, kind TEXT NOT NULL, body TEXT NOT NULL, PRIMARY KEY (session, kind)
     );
     CREATE TABLE host_token (id TEXT PRIMARY KEY, caller TEXT NOT NULL, warned INTEGER NOT NULL DEFAULT 0);
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
     CREATE TABLE seen_message (seq INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL UNIQUE);`,
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
    `CREATE TABLE revocation (
       id TEXT PRIMARY KEY, kind TEXT NOT NULL, value TEXT NOT NULL, by_subject TEXT NOT NULL,
       at INTEGER NOT NULL, until INTEGER,
       UNIQUE (kind, value)
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
     );
     CREATE TABLE quota (
       subject TEXT NOT NULL, quota TEXT NOT NULL, hour INTEGER NOT NULL, given INTEGER NOT NULL,
       PRIMARY KEY (subject, quota)
     );
     CREATE TABLE share (
       id TEXT PRIMARY KEY, hash TEXT NOT NULL UNIQUE, session TEXT NOT NULL, workspace TEXT NOT NULL,
       by_subject TEXT NOT NULL, at INTEGER NOT NULL, expires INTEGER NOT NULL, redact INTEGER NOT NULL DEFAULT 0
     );`,
    `CREATE TABLE revocation (
       id TEXT PRIMARY KEY, kind TEXT NOT NULL, value TEXT NOT NULL, workspace TEXT NOT NULL,
       by_subject TEXT NOT NULL, at INTEGER NOT NULL, until INTEGER,
       UNIQUE (kind, value, workspace)
     );
     CREATE TABLE socket (
       id TEXT PRIMARY KEY, kind TEXT NOT NULL, subject TEXT NOT NULL, jti TEXT, workspace TEXT, expires INTEGER NOT NULL,
       holder TEXT NOT NULL, name TEXT NOT NULL
     );
     CREATE INDEX socket_subject ON socket (subject);
     CREATE INDEX socket_jti ON socket (jti);
     CREATE INDEX socket_expires ON socket (expires);
     CREATE TABLE audit (
       seq INTEGER PRIMARY KEY AUTOINCREMENT, at INTEGER NOT NULL, kind TEXT NOT NULL, subject TEXT NOT NULL,
       workspace TEXT, session TEXT, detail TEXT NOT NULL
     );
     CREATE TABLE quota (
       subject TEXT NOT NULL, quota TEXT NOT NULL, hour INTEGER NOT NULL, given INTEGER NOT NULL,
       PRIMARY KEY (subject, quota)
     );
     CREATE TABLE share (
       id TEXT PRIMARY KEY, hash TEXT NOT NULL UNIQUE, session TEXT NOT NULL, workspace TEXT NOT NULL,
       by_subject TEXT NOT NULL, at INTEGER NOT NULL, expires INTEGER NOT NULL, redact INTEGER NOT NULL DEFAULT 0
     );`,
    `CREATE TABLE revocation (
       id TEXT PRIMARY KEY, kind TEXT NOT NULL, value TEXT NOT NULL, workspace TEXT NOT NULL,
       by_subject TEXT NOT NULL, at INTEGER NOT NULL, until INTEGER,
       UNIQUE (kind, value, workspace)
     );
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
     CREATE TABLE audit_count (
       kind TEXT NOT NULL, subject TEXT NOT NULL, entries INTEGER NOT NULL, PRIMARY KEY (kind, subject)
     );
     CREATE TABLE quota (
       subject TEXT NOT NULL, quota TEXT NOT NULL, hour INTEGER NOT NULL, given INTEGER NOT NULL,
       PRIMARY KEY (subject, quota)
     );
     CREATE TABLE share (
       id TEXT PRIMARY KEY, hash TEXT NOT NULL UNIQUE, session TEXT NOT NULL, workspace TEXT NOT NULL,
       by_subject TEXT NOT NULL, by_jti TEXT, by_workspace TEXT, at INTEGER NOT NULL, expires INTEGER NOT NULL,
       redact INTEGER NOT NULL DEFAULT 0
     );
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
     CREATE INDEX webhook_by_jti ON webhook (by_jti);`,
    `CREATE TABLE revocation (
       id TEXT PRIMARY KEY, kind TEXT NOT NULL, value TEXT NOT NULL, workspace TEXT NOT NULL,
       by_subject TEXT NOT NULL, at INTEGER NOT NULL, until INTEGER,
       UNIQUE (kind, value, workspace)
     );
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
     CREATE TABLE audit_count (
       kind TEXT NOT NULL, subject TEXT NOT NULL, entries INTEGER NOT NULL, PRIMARY KEY (kind, subject)
     );
     CREATE TABLE quota (
       subject TEXT NOT NULL, quota TEXT NOT NULL, hour INTEGER NOT NULL, given INTEGER NOT NULL,
       PRIMARY KEY (subject, quota)
     );
     CREATE TABLE share (
       id TEXT PRIMARY KEY, hash TEXT NOT NULL UNIQUE, session TEXT NOT NULL, workspace TEXT NOT NULL,
       by_subject TEXT NOT NULL, by_jti TEXT, by_workspace TEXT, at INTEGER NOT NULL, expires INTEGER NOT NULL,
       redact INTEGER NOT NULL DEFAULT 0
     );
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
     CREATE TABLE logout (jti TEXT PRIMARY KEY, expires INTEGER NOT NULL);`,
    `CREATE TABLE revocation (
       id TEXT PRIMARY KEY, kind TEXT NOT NULL, value TEXT NOT NULL, workspace TEXT NOT NULL,
       by_subject TEXT NOT NULL, at INTEGER NOT NULL, until INTEGER,
       UNIQUE (kind, value, workspace)
     );
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
     CREATE TABLE audit_count (
       kind TEXT NOT NULL, subject TEXT NOT NULL, entries INTEGER NOT NULL, PRIMARY KEY (kind, subject)
     );
     CREATE TABLE quota (
       subject TEXT NOT NULL, quota TEXT NOT NULL, hour INTEGER NOT NULL, given INTEGER NOT NULL,
       PRIMARY KEY (subject, quota)
     );
     CREATE TABLE share (
       id TEXT PRIMARY KEY, hash TEXT NOT NULL UNIQUE, session TEXT NOT NULL, workspace TEXT NOT NULL,
       by_subject TEXT NOT NULL, by_jti TEXT, by_workspace TEXT, at INTEGER NOT NULL, expires INTEGER NOT NULL,
       redact INTEGER NOT NULL DEFAULT 0
     );
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
     CREATE TABLE logout (jti TEXT PRIMARY KEY, expires INTEGER NOT NULL);
     CREATE TABLE token (
       subject TEXT NOT NULL, jti TEXT NOT NULL, expires INTEGER NOT NULL, PRIMARY KEY (subject, jti)
     ) WITHOUT ROWID;
     CREATE INDEX token_by_jti ON token (jti);
     CREATE INDEX token_expires ON token (expires);
     CREATE TABLE subject_order (
       subject TEXT PRIMARY KEY, changes INTEGER NOT NULL, endsAll INTEGER NOT NULL
     ) WITHOUT ROWID;
     CREATE TABLE ending_connection (id TEXT PRIMARY KEY) WITHOUT ROWID;`,
    `CREATE TABLE revocation (
       id TEXT PRIMARY KEY, kind TEXT NOT NULL, value TEXT NOT NULL, workspace TEXT NOT NULL,
       by_subject TEXT NOT NULL, at INTEGER NOT NULL, until INTEGER,
       UNIQUE (kind, value, workspace)
     );
     CREATE INDEX revocation_until ON revocation (until);
     CREATE INDEX revocation_by_workspace ON revocation (workspace, kind);
     CREATE INDEX revocation_by_maker ON revocation (by_subject);
     CREATE TABLE token (
       subject TEXT NOT NULL, jti TEXT NOT NULL, expires INTEGER NOT NULL, PRIMARY KEY (subject, jti)
     ) WITHOUT ROWID;
     CREATE INDEX token_by_jti ON token (jti);
     CREATE INDEX token_expires ON token (expires);
     CREATE TABLE subject_order (
       subject TEXT PRIMARY KEY, changes INTEGER NOT NULL, endsAll INTEGER NOT NULL
     ) WITHOUT ROWID;
     CREATE TABLE ending_connection (id TEXT PRIMARY KEY) WITHOUT ROWID;
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
     CREATE TABLE audit_count (
       kind TEXT NOT NULL, subject TEXT NOT NULL, entries INTEGER NOT NULL, PRIMARY KEY (kind, subject)
     );
     CREATE TABLE quota (
       subject TEXT NOT NULL, quota TEXT NOT NULL, hour INTEGER NOT NULL, given INTEGER NOT NULL,
       PRIMARY KEY (subject, quota)
     );
     CREATE TABLE share (
       id TEXT PRIMARY KEY, hash TEXT NOT NULL UNIQUE, session TEXT NOT NULL, workspace TEXT NOT NULL,
       by_subject TEXT NOT NULL, by_jti TEXT, by_workspace TEXT, at INTEGER NOT NULL, expires INTEGER NOT NULL,
       redact INTEGER NOT NULL DEFAULT 0
     );
     CREATE INDEX share_by_session ON share (session);
     CREATE INDEX share_by_subject ON share (by_subject);
     CREATE INDEX share_by_jti ON share (by_jti);
     CREATE INDEX share_expires ON share (expires);
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
     CREATE INDEX webhook_changed ON webhook (changes) WHERE changes > 0;
     CREATE TABLE logout (jti TEXT PRIMARY KEY, expires INTEGER NOT NULL);
     CREATE INDEX logout_expires ON logout (expires);`,
  ],
  subject: [
    `CREATE TABLE socket (
       id TEXT PRIMARY KEY, kind TEXT NOT NULL, jti TEXT, workspace TEXT, holder TEXT NOT NULL, name TEXT NOT NULL,
       lease INTEGER NOT NULL, isEnding INTEGER NOT NULL DEFAULT 0
     ) WITHOUT ROWID;
     CREATE INDEX socket_lease ON socket (lease);
     CREATE INDEX socket_ending ON socket (isEnding) WHERE isEnding = 1;
     CREATE TABLE token (
       jti TEXT NOT NULL, workspace TEXT NOT NULL, expires INTEGER NOT NULL, isHost INTEGER NOT NULL,
       isNoted INTEGER NOT NULL, isEnding INTEGER NOT NULL DEFAULT 0, PRIMARY KEY (jti, workspace)
     ) WITHOUT ROWID;
     CREATE INDEX token_expires ON token (expires);
     CREATE INDEX token_unnoted ON token (isNoted) WHERE isNoted = 0;
     CREATE INDEX token_of_host ON token (isHost) WHERE isHost = 1;
     CREATE INDEX token_ending ON token (isEnding) WHERE isEnding = 1;
     CREATE TABLE revocation (
       kind TEXT NOT NULL, value TEXT NOT NULL, workspace TEXT NOT NULL, until INTEGER,
       PRIMARY KEY (kind, value, workspace)
     ) WITHOUT ROWID;
     CREATE TABLE quota (quota TEXT PRIMARY KEY, hour INTEGER NOT NULL, given INTEGER NOT NULL) WITHOUT ROWID;`,
  ],
};
