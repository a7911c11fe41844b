-- What each session has used on each day (UTC), as its agent reported it: one row, in which costs are a JSON object by
-- currency. A session writes the amounts of a day whole, so a write that comes twice counts once. The rows outlive their
-- session: the money is spent.
-- The primary key has the order of pages; the index is for callers of some workspaces.
CREATE TABLE usage (
  tenant TEXT NOT NULL,
  day TEXT NOT NULL,
  session TEXT NOT NULL,
  workspace TEXT NOT NULL,
  subject TEXT NOT NULL,
  agent TEXT NOT NULL,
  costs TEXT NOT NULL,
  total_tokens INTEGER NOT NULL,
  input_tokens INTEGER NOT NULL,
  output_tokens INTEGER NOT NULL,
  last_seq INTEGER NOT NULL,
  PRIMARY KEY (tenant, day, session)
);
CREATE INDEX usage_by_workspace ON usage (tenant, workspace, day, session);
