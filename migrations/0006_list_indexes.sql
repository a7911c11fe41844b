-- One index per list, in the order of its pages: a page reads its own rows and no others, whatever the tenant has.
-- SQLite reads an index in both directions, so all columns ascend.
DROP INDEX sessions_by_update;
CREATE INDEX sessions_by_time ON sessions (tenant, updated_at, id);
CREATE INDEX sessions_by_workspace ON sessions (tenant, workspace, updated_at, id);
-- An editor asks for the sessions of a directory, as the client or as the host names it. Both names are mostly the
-- same, and then the second index has no entry.
CREATE INDEX sessions_by_client_cwd ON sessions (tenant, client_cwd, workspace, updated_at, id);
CREATE INDEX sessions_by_cwd ON sessions (tenant, cwd, workspace, updated_at, id) WHERE cwd <> client_cwd;

DROP INDEX permissions_by_age;
CREATE INDEX permissions_by_time ON permissions (tenant, requested_at, session, seq);
CREATE INDEX permissions_by_workspace ON permissions (tenant, workspace, requested_at, session, seq);

DROP INDEX workspaces_by_update;
CREATE INDEX workspaces_by_time ON workspaces (tenant, updated_at, id);
