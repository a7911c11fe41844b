-- A session's id is its tenant's: two tenants may have the same one. SQLite changes no primary keys, so the tables are
-- made anew.
CREATE TABLE tenant_sessions (
  tenant TEXT NOT NULL,
  id TEXT NOT NULL,
  workspace TEXT NOT NULL,
  agent TEXT NOT NULL,
  cwd TEXT NOT NULL,
  client_cwd TEXT,
  title TEXT,
  state TEXT NOT NULL,
  created_at TEXT NOT NULL,
  updated_at TEXT NOT NULL,
  last_seq INTEGER NOT NULL,
  PRIMARY KEY (tenant, id)
);
INSERT INTO tenant_sessions (tenant, id, workspace, agent, cwd, client_cwd, title, state, created_at, updated_at, last_seq)
  SELECT tenant, id, workspace, agent, cwd, client_cwd, title, state, created_at, updated_at, last_seq FROM sessions;
DROP TABLE sessions;
ALTER TABLE tenant_sessions RENAME TO sessions;
CREATE INDEX sessions_by_update ON sessions (tenant, workspace, updated_at DESC, id);

CREATE TABLE tenant_permissions (
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
INSERT INTO tenant_permissions (tenant, session, seq, workspace, tool_call_id, title, kind, options, requested_at)
  SELECT tenant, session, seq, workspace, tool_call_id, title, kind, options, requested_at FROM permissions;
DROP TABLE permissions;
ALTER TABLE tenant_permissions RENAME TO permissions;
CREATE INDEX permissions_by_age ON permissions (tenant, workspace, requested_at, session, seq);
