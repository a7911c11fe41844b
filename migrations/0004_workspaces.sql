-- One row per workspace that has been configured or served, written by its WorkspaceState object. A projection: it
-- can be dropped and rebuilt.
CREATE TABLE workspaces (
  tenant TEXT NOT NULL,
  id TEXT NOT NULL,
  name TEXT,
  root TEXT,
  branch TEXT,
  default_agent TEXT,
  hosts INTEGER NOT NULL,
  updated_at TEXT NOT NULL,
  PRIMARY KEY (tenant, id)
);

CREATE INDEX workspaces_by_update ON workspaces (tenant, updated_at DESC, id);
