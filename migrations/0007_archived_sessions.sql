-- Lists leave archived sessions out unless they are asked for. Each list has its index with the column, so that a page
-- reads its own rows, however many sessions are archived.
ALTER TABLE sessions ADD COLUMN archived INTEGER NOT NULL DEFAULT 0;
CREATE INDEX sessions_archived_by_time ON sessions (tenant, archived, updated_at, id);
CREATE INDEX sessions_archived_by_workspace ON sessions (tenant, archived, workspace, updated_at, id);
CREATE INDEX sessions_archived_by_client_cwd ON sessions (tenant, archived, client_cwd, workspace, updated_at, id);
CREATE INDEX sessions_archived_by_cwd ON sessions (tenant, archived, cwd, workspace, updated_at, id)
  WHERE cwd <> client_cwd;
