-- One row per permission that waits for an answer, written by its AcpSession object together with its row in
-- `sessions`. A projection: it can be dropped and rebuilt.
CREATE TABLE permissions (
  session TEXT NOT NULL,
  seq INTEGER NOT NULL,
  tenant TEXT NOT NULL,
  workspace TEXT NOT NULL,
  tool_call_id TEXT,
  title TEXT,
  kind TEXT,
  options TEXT,
  requested_at TEXT NOT NULL,
  PRIMARY KEY (session, seq)
);

CREATE INDEX permissions_by_age ON permissions (tenant, workspace, requested_at, session, seq);
