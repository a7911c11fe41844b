import type { Schema } from "../durable/schema.ts";

/**
 * The tables of an AcpConnection whose client may be without a socket: over Streamable HTTP, or on the resumable wire
 * until the client comes back. A plain WebSocket needs none of them.
 */
export const CONNECTION_SCHEMA: Schema = {
  name: "connection",
  unnumbered: ["connection"],
  tables: `
  -- One row: who the client is, and when it was last seen.
  CREATE TABLE connection (state TEXT NOT NULL, seen INTEGER NOT NULL);
  -- One row per event stream; the connection's own stream has the empty id. A row says how far its reader is: the last
  -- message of the outbox, and the cursor in the session's log. While the reader has a socket, the socket's attachment
  -- has the cursor.
  CREATE TABLE stream (
    id TEXT PRIMARY KEY,
    attached INTEGER NOT NULL DEFAULT 0,
    sent INTEGER NOT NULL DEFAULT 0,
    dropped INTEGER NOT NULL DEFAULT 0,
    cursor TEXT
  );
  -- Messages that are in no log: the connection's own answers, and answers that open a session. The newest stay after
  -- they were sent, for a reader that comes back. \`re\` is the number of the client's frame that the message answers,
  -- so that a repeated frame is not answered again.
  CREATE TABLE outbox (
    n INTEGER PRIMARY KEY AUTOINCREMENT,
    stream TEXT NOT NULL,
    chars INTEGER NOT NULL,
    re INTEGER UNIQUE
  );
  CREATE TABLE outbox_part (n INTEGER NOT NULL, part INTEGER NOT NULL, body TEXT NOT NULL, PRIMARY KEY (n, part));
  -- Requests whose answer comes from a session and goes to the connection's stream; \`seq\` once it did.
  CREATE TABLE expected (n INTEGER PRIMARY KEY, session TEXT NOT NULL, id TEXT NOT NULL, seq INTEGER);
`,
  upgrades: [
    `
  ALTER TABLE stream RENAME COLUMN log TO cursor;
  UPDATE stream
  SET cursor = json_object('attachment', cursor ->> '$.attach', 'seq', cursor ->> '$.place.upTo', 'part', cursor ->> '$.place.skip')
  WHERE cursor IS NOT NULL AND cursor != 'null';
`,
  ],
};
