/** Every number with a reason, in one place. Each can be overridden by name, see `overrideLimits`. */
const DEFAULTS = {
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

  /** A URL may carry a token; headers two of them, and what proxies add. What the REST API takes is small. */
  urlChars: 16 * 1024,
  headerChars: 64 * 1024,
  bodyBytes: 1024 * 1024,

  /**
   * How long the body of a request may stop coming, and take in all; an import may take as long as it likes. A phone in a
   * tunnel is back sooner, and 16 MiB pass in the time at 2 Mbit/s.
   */
  bodyStallMs: 30_000,
  bodyMs: 60_000,

  /** How long a client may take to initialize its connection. */
  handshakeMs: 60_000,

  /** Sockets and connections of one subject at a time. */
  socketsPerSubject: 1000,

  /**
   * What a subject may do within an hour, over all its connections: sessions opened, prompts sent, characters sent
   * in, of messages and (as bytes) of imports. More than anybody types, less than would harm anybody else.
   */
  sessionsPerHour: 1000,
  promptsPerHour: 10_000,
  charsPerHour: 1024 ** 3,

  /**
   * A notification or an answer of up to this length may use the part of `charsPerHour` that nothing else may:
   * `session/cancel` and the answer to a permission request, ids at their longest, have room in it.
   */
  smallChars: 4 * 1024,

  /** What its tenant has refused a connection is not asked for again sooner than this, however much it is sent. */
  quotaAskMs: 1_000,

  /** Session and JSON-RPC ids, as in the SDK's own server. */
  idChars: 1024,

  /** What one message between host and session carries at most, unless one frame alone is larger. */
  linkBatchChars: 1024 * 1024,

  /** Messages from a host to a session that may be under way at once. */
  linkMessages: 2,

  /** Unacknowledged items a host keeps before it stops reading the agent's stdout. */
  hostWindowChars: 8 * 1024 * 1024,

  /** End of an agent's stderr kept for the exit report. */
  stderrChars: 8 * 1024,

  /** How long a session waits for a host, an agent process and its answer to session/new. */
  agentStartMs: 60_000,

  /** How long a host may be away before its sessions hear of it, unless the workspace says otherwise. */
  hostGraceMs: 120_000,

  /** A host that has not been heard of for this long is asked whether it is there: four of its pings. */
  hostSilentMs: 60_000,

  /** How long a host may take to say that it is there. */
  probeMs: 5_000,

  /** How long a container may take until its host dials in, and, when it was told to end, until it is killed. */
  containerStartMs: 60_000,
  containerStopMs: 30_000,
  /** How long its host lets turns finish. Cloudflare kills containers 15 minutes after it has told them to end. */
  containerDrainMs: 14 * 60 * 1000,
  /** A container nobody has needed for this long is ended, unless the workspace says otherwise. */
  containerSleepMs: 15 * 60 * 1000,
  /** Pause after a start that came to nothing; doubled for each one after it, and how long it gets at most. */
  containerBackoffMs: 1_000,
  containerBackoffMaxMs: 5 * 60 * 1000,
  /** A container that was up for this long does not count as a start that came to nothing. */
  containerStableMs: 60_000,
  /** Life of the token its host is given; it gets another one after half of it. */
  containerTokenMs: 6 * 60 * 60 * 1000,

  /** How long a workspace waits before it tells a session again what that could not be told. */
  wordRetryMs: 5_000,

  /** How long a workspace gathers changes before it shows them to those who watch it. */
  viewDelayMs: 300,

  /** Characters of history a session may hold before it takes no more prompts. */
  historyChars: 100 * 1024 * 1024,

  /** Characters of log that go to the archive as one file. */
  segmentChars: 8 * 1024 * 1024,

  /** Prompts that may wait behind the running one. */
  queueLength: 50,

  /**
   * Requests nobody has answered yet, and that a session's state has to keep: of clients to the agent, besides
   * prompts, and of the agent to clients. Files and terminals do not count, the workspace's host answers those.
   */
  openRequests: 100,

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

  /**
   * Messages of a connection over HTTP that are in no session's log: as many may wait for its reader, and as
   * many are kept after that for a reader that comes back.
   */
  outboxMessages: 1000,
  outboxChars: 4 * 1024 * 1024,

  /** A connection over HTTP that nobody reads or writes for this long is forgotten. */
  connectionIdleMs: 2 * 60 * 60 * 1000,

  /** What a client on a plain WebSocket may be sent before it has to show that it reads. */
  unreadChars: 8 * 1024 * 1024,

  /**
   * A client on a WebSocket that has said nothing for this long is asked whether it is there, and how long it may take
   * to answer; one that cannot be asked is let go when nothing was said to it either.
   */
  socketIdleMs: 2 * 60 * 60 * 1000,
  pongMs: 60_000,

  /** A client that may come back is waited for this long. What waits is a few rows. */
  resumeMs: 30 * 24 * 60 * 60 * 1000,
  /** Its socket is taken for lost after so much silence: five heartbeats, as far apart as they may be. */
  resumeSilentMs: 5 * 60_000,
  /** What one message to a resumable client carries at most, unless one event alone is larger. */
  resumePageChars: 16 * 1024,
  /** What it may be sent before it acknowledges some of it. */
  resumeWindowChars: 2 * 1024 * 1024,

  /** Live readers (`text/event-stream`) one session may have; each new event is offered to every one of them. */
  watchersPerSession: 100,

  /**
   * How long a second reader of a client's event stream waits until it is clear whether the first one is still
   * there: a round trip to a client far away, and no more often than anyone makes that mistake.
   */
  readerProbeMs: 1_000,

  /** Live readers of one workspace. */
  watchersPerWorkspace: 100,

  /** A comment on an event stream this often, so that proxies do not take silence for its end. */
  keepAliveMs: 15_000,

  /**
   * The keys an issuer publishes: asked for again after this long, and for a key that is not among them, but no
   * sooner than the cooldown after the last time; how long to wait for them, and before trying again.
   */
  jwksMaxAgeMs: 10 * 60 * 1000,
  jwksCooldownMs: 30_000,
  jwksTimeoutMs: 5_000,
  jwksRetryMs: 5_000,

  /** How long before its end a client is told that its token expires, so that it can renew it in place. */
  tokenWarningMs: 60_000,

  /** For this long a request may go by what was known of its token: well under the second revoking may take. */
  revocationCacheMs: 500,
  revocations: 10_000,

  /** How long a link to a session may be good. */
  shareSeconds: 90 * 24 * 60 * 60,

  /** How long a link that answers a permission request is good, unless its maker says otherwise, and at most. */
  answerLinkSeconds: 24 * 60 * 60,
  answerLinkMaxSeconds: 7 * 24 * 60 * 60,
  /** Links made for one request; an agent may offer more options than anybody puts into a message. */
  answerLinks: 20,

  /** Acts a tenant's audit keeps, and how often it notes that the same bearer's token was refused. */
  auditEntries: 10_000,
  refusalNoteMs: 60_000,

  /** Notices a session keeps that its workspace could not be told of, and how long until it tries again. */
  noticesPerSession: 100,
  noticeRetryMs: 5_000,
  /** Notices a workspace knows again when they are handed over twice: what many sessions have within seconds. */
  noticesRemembered: 10_000,

  /** Webhooks of a workspace, the length of an address, and messages that may wait for one of them. */
  webhooksPerWorkspace: 20,
  webhookUrlChars: 2000,
  webhookQueue: 1000,
  /** Requests under way to webhooks of a workspace. An object may have six connections, and needs some itself. */
  webhooksAtOnce: 4,
  /** How long a receiver may take to answer. */
  webhookTimeoutMs: 10_000,
  /** Pause after the first attempt that failed; what follows are multiples of it, see webhook-retry.ts. */
  webhookRetryMs: 5_000,
  /** How long a receiver may ask to be left alone. */
  webhookRetryAfterMs: 60 * 60 * 1000,

  /** Longest line of an imported log: the largest WebSocket message, and an envelope around it. */
  importLineBytes: 32 * 1024 * 1024 + 64 * 1024,

  /** What one call of an import carries. */
  importChunkBytes: 1024 * 1024,

  /** Largest file of an archive that is read whole: its `session.json`, or a record in one file. */
  importFileBytes: 8 * 1024 * 1024,

  /** When an import that crashed is cleared away, should nobody ask for the session before. */
  importMs: 60 * 60 * 1000,
};

export type Limits = typeof DEFAULTS;

export const LIMITS: Readonly<Limits> = { ...DEFAULTS };

/** Takes a JSON object of names and numbers, as given in the configuration; an error names what is wrong. */
export function overrideLimits(text: string | undefined): void {
  if (text === undefined || text === "") return;
  const overrides = JSON.parse(text) as Record<string, unknown>;
  for (const [name, value] of Object.entries(overrides)) {
    if (!(name in DEFAULTS)) throw new Error(`There is no limit called ${name}`);
    if (typeof value !== "number" || !(value > 0))
      throw new Error(`The limit ${name} must be a positive number`);
  }
  Object.assign(LIMITS, overrides);
}

/**
 * What a session's state keeps of what it is told. All of it is written with each snapshot, as one row, so
 * that together these stay below `rowChars` for any agent that means well. They are part of the fold and not
 * to be configured: with other numbers the same log would give another state. Who changes one raises
 * STATE_VERSION.
 */
export const KEEP = {
  /** Idempotency keys of prompts, and how long one may be. */
  promptKeys: 100,
  promptKeyChars: 200,
  /** The last chunk an agent replayed, to know a repetition. */
  replayedChars: 4 * 1024,
  /** One detail of a tool call, a plan, a `_meta`: longer ones stay in the log alone. */
  detailChars: 4 * 1024,

  /** Tool calls, and the characters of their ids and details. */
  toolCalls: 300,
  toolCallsChars: 96 * 1024,

  /** Lists the agent sends whole: beyond this only names and descriptions, as many as fit. */
  commandsChars: 64 * 1024,
  configOptionsChars: 32 * 1024,
  modelsChars: 24 * 1024,
  modesChars: 8 * 1024,
  planChars: 16 * 1024,

  /** Plans that have an id. */
  plans: 8,

  /** Ids; titles, descriptions and the like; single words. */
  idChars: 1024,
  labelChars: 200,
  wordChars: 64,

  /** Errors and reasons. */
  reasonChars: 1000,

  /** Turns that have ended, turns in all, and the beginning of a prompt and a reply. */
  endedTurns: 50,
  turns: 150,
  previewChars: 200,

  /** Open permission requests whose options are kept. */
  permissions: 16,
} as const;
