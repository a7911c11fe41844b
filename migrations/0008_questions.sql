-- One row per question that waits for an answer, written by its AcpSession object together with its row in `sessions`. A
-- projection: it can be dropped and rebuilt.
CREATE TABLE questions (
  tenant TEXT NOT NULL,
  session TEXT NOT NULL,
  seq INTEGER NOT NULL,
  workspace TEXT NOT NULL,
  mode TEXT NOT NULL,
  message TEXT,
  tool_call_id TEXT,
  requested_schema TEXT,
  url TEXT,
  requested_at TEXT NOT NULL,
  PRIMARY KEY (tenant, session, seq)
);
CREATE INDEX questions_by_time ON questions (tenant, requested_at, session, seq);
CREATE INDEX questions_by_workspace ON questions (tenant, workspace, requested_at, session, seq);
