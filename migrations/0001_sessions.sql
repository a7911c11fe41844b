-- One row per session, written by its AcpSession object. A projection: it can be dropped and rebuilt.
CREATE TABLE sessions (
  id TEXT PRIMARY KEY,
  tenant TEXT NOT NULL,
  workspace TEXT NOT NULL,
  agent TEXT NOT NULL,
  cwd TEXT NOT NULL,
  title TEXT,
  state TEXT NOT NULL,
  created_at TEXT NOT NULL,
  updated_at TEXT NOT NULL,
  last_seq INTEGER NOT NULL
);

CREATE INDEX sessions_by_update ON sessions (tenant, workspace, updated_at DESC, id);
