/** Every number with a reason, in one place. */
export const LIMITS = {
  /**
   * Largest frame accepted from a client or an agent, in UTF-16 units. workerd hands over WebSocket
   * messages up to 32 MiB and hangs on larger ones, so we refuse well before that.
   */
  frameChars: 16 * 1024 * 1024,

  /**
   * Characters per row of the log. SQLite in a Durable Object refuses values over 2 MB; a UTF-16 unit is
   * at most three bytes of UTF-8, so this stays below it whatever the text.
   */
  rowChars: 600_000,

  /** Session and JSON-RPC ids, as in the SDK's own server. */
  idChars: 1024,

  /** What one message between host and session carries at most, unless one frame alone is larger. */
  linkBatchChars: 1024 * 1024,

  /** Unacknowledged items a host keeps before it stops reading the agent's stdout. */
  hostWindowChars: 8 * 1024 * 1024,

  /** End of an agent's stderr kept for the exit report. */
  stderrChars: 8 * 1024,

  /** How long a session waits for a host, an agent process and its answer to session/new. */
  agentStartMs: 60_000,

  /** Characters of history a session may hold before it takes no more prompts. */
  historyChars: 100 * 1024 * 1024,

  /** Prompts that may wait behind the running one. */
  queueLength: 50,

  /** Idempotency keys a session remembers. */
  promptKeys: 100,

  /** Without activity for this long the agent process is stopped and the session paused. */
  idleMs: 2 * 60 * 60 * 1000,

  /** Processes that may end in a row before no more is started, until this much time has passed. */
  crashLimit: 5,
  crashMemoryMs: 60_000,
  /** Pause before the third process in a row; doubled for each one after it. */
  crashBackoffMs: 1_000,

  /** What one RPC from a session to a connection carries at most, unless one frame alone is larger. */
  deliverChars: 1024 * 1024,

  /** Chunks of a message are joined in a replay up to about this length. */
  replayChunkChars: 256 * 1024,

  /** Events of the log kept in memory so that a live reader does not go through SQLite. */
  tailChars: 2 * 1024 * 1024,

  /** Events between two snapshots of a session's state: what waking up has to replay at most, give or take a batch. */
  eventsPerSnapshot: 500,

  /** How long a session gathers changes before it writes its line in the index, and waits after a failure. */
  indexDelayMs: 2_000,
  indexRetryMs: 30_000,

  /** Sessions one connection may have open; their cursors live in a socket attachment of 16 KiB. */
  sessionsPerConnection: 150,
} as const;
