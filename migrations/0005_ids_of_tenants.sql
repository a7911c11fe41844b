-- A session's id is its tenant's: two tenants may have the same one. SQLite changes no primary keys, so the tables are
-- made anew. Nothing is taken over: sessions live under other names since, and what was listed here cannot be found.
DROP TABLE sessions;
CREATE TABLE sessions (
  tenant TEXT NOT NULL,
  id TEXT NOT NULL,
  workspace TEXT NOT NULL,
  agent TEXT NOT NULL,
  cwd TEXT NOT NULL,
  client_cwd TEXT NOT NULL,
  title TEXT,
  state TEXT NOT NULL,
  created_at TEXT NOT NULL,
  updated_at TEXT NOT NULL,
  last_seq INTEGER NOT NULL,
  PRIMARY KEY (tenant, id)
);
CREATE INDEX sessions_by_update ON sessions (tenant, workspace, updated_at DESC, id);

DROP TABLE permissions;
CREATE TABLE permissions (
  tenant TEXT NOT NULL,
  session TEXT NOT NULL,
  seq INTEGER NOT NULL,
  workspace TEXT NOT NULL,
  tool_call_id TEXT,
  title TEXT,
  kind TEXT,
  options TEXT,
  requested_at TEXT NOT NULL,
  PRIMARY KEY (tenant, session, seq)
);
CREATE INDEX permissions_by_age ON permissions (tenant, workspace, requested_at, session, seq);
