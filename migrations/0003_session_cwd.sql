-- The directory as the client named it: by this an editor looks for the sessions of a project.
ALTER TABLE sessions ADD COLUMN client_cwd TEXT;
