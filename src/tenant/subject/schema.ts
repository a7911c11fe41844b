import type { Schema } from "../../durable/schema.ts";

/** The tables of a SubjectState object. */
export const SUBJECT_SCHEMA: Schema = {
  name: "subject",
  unnumbered: [],
  tables: `
  -- Open sockets and HTTP connections of clients and live readers. A row counts until its lease ends, in milliseconds
  -- since the epoch; the holder renews the lease while the socket lives. A holder names each entry, because a client that
  -- comes back has the same id.
  CREATE TABLE socket (
    id TEXT PRIMARY KEY, kind TEXT NOT NULL, jti TEXT, workspace TEXT, holder TEXT NOT NULL, name TEXT NOT NULL,
    lease INTEGER NOT NULL, isEnding INTEGER NOT NULL DEFAULT 0, entry TEXT NOT NULL DEFAULT ''
  ) WITHOUT ROWID;
  CREATE INDEX socket_lease ON socket (lease);
  CREATE INDEX socket_ending ON socket (isEnding) WHERE isEnding = 1;
  -- Tokens that were met. The tenant has those in its list that are noted, and reports their revocations. Empty texts
  -- stand for no id and no single workspace; expires is in seconds since the epoch.
  CREATE TABLE token (
    jti TEXT NOT NULL, workspace TEXT NOT NULL, expires INTEGER NOT NULL, isHost INTEGER NOT NULL,
    isNoted INTEGER NOT NULL, isEnding INTEGER NOT NULL DEFAULT 0, PRIMARY KEY (jti, workspace)
  ) WITHOUT ROWID;
  CREATE INDEX token_expires ON token (expires);
  CREATE INDEX token_unnoted ON token (isNoted) WHERE isNoted = 0;
  CREATE INDEX token_of_host ON token (isHost) WHERE isHost = 1;
  CREATE INDEX token_ending ON token (isEnding) WHERE isEnding = 1;
  -- The revocations of the subject and of these tokens.
  CREATE TABLE revocation (
    kind TEXT NOT NULL, value TEXT NOT NULL, workspace TEXT NOT NULL, until INTEGER,
    PRIMARY KEY (kind, value, workspace)
  ) WITHOUT ROWID;
  -- How much of each quota the subject was given in the hour.
  CREATE TABLE quota (quota TEXT PRIMARY KEY, hour INTEGER NOT NULL, given INTEGER NOT NULL) WITHOUT ROWID;
`,
  upgrades: ["ALTER TABLE socket ADD COLUMN entry TEXT NOT NULL DEFAULT ''"],
};
