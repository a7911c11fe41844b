/**
 * Every number that bounds the system, with its reason, grouped by the subsystem that obeys it. An operator overrides
 * numbers by name in the variable LIMITS (for hosts: ACP_EDGE_LIMITS), see `readLimits`.
 *
 * A name ends with its unit: `Chars` are UTF-16 units, the length of a JavaScript string.
 */
export const DEFAULT_LIMITS = {
  // ---- Frames and ids, everywhere

  /**
   * Largest frame accepted from a client or an agent. workerd delivers WebSocket messages of up to 32 MiB and hangs on
   * larger ones, so the gateway refuses frames well before that size.
   */
  frameChars: 16 * 1024 * 1024,

  /** Longest session id and JSON-RPC id. The ACP SDK's own server has this limit too. */
  idChars: 1024,

  // ---- HTTP requests

  /** A URL may carry a token; headers may carry two, and additions of proxies. Bodies of the REST API are small. */
  urlChars: 16 * 1024,
  headerChars: 64 * 1024,
  bodyBytes: 1024 * 1024,

  /**
   * Longest pause within a request body, and longest time for a whole body. Imports have no total limit. A phone in a
   * tunnel is back before the pause ends, and 16 MiB arrive within the total at 2 Mbit/s.
   */
  bodyStallMs: 30_000,
  bodyMs: 60_000,

  /** Interval of comments on an event stream. Without comments proxies mistake a silent stream for an ended one. */
  keepAliveMs: 15_000,

  // ---- Tokens and links

  /**
   * The published keys of an issuer are fetched again after the maximum age, and for an unknown key id, but not within
   * the cooldown after the last fetch. A fetch ends after the timeout. A failed fetch is repeated after `jwksRetryMs`.
   */
  jwksMaxAgeMs: 10 * 60 * 1000,
  jwksCooldownMs: 30_000,
  jwksTimeoutMs: 5_000,
  jwksRetryMs: 5_000,

  /** A client is warned this long before its token expires, so that it can renew the token in place. */
  tokenWarningMs: 60_000,

  /** Age of a cached answer about a revocation, well under the second that a revocation may take to have effect. */
  revocationCacheMs: 500,
  revocations: 10_000,

  /** Longest life of a share link. */
  shareSeconds: 90 * 24 * 60 * 60,

  /** Life of a link that answers a permission request: the default, and the longest. */
  answerLinkSeconds: 24 * 60 * 60,
  answerLinkMaxSeconds: 7 * 24 * 60 * 60,
  /** Answer links per permission request. An agent may offer more options than fit into a message. */
  answerLinks: 20,

  // ---- Quotas and audit of a tenant

  /** Sockets and connections of one subject at a time. */
  socketsPerSubject: 1000,

  /**
   * Allowance of one subject per hour, over all its connections: opened sessions, prompts, and characters of messages
   * and (as bytes) of imports. A person never types this much, and this much harms no other subject.
   */
  sessionsPerHour: 1000,
  promptsPerHour: 10_000,
  charsPerHour: 1024 ** 3,

  /**
   * Notifications and answers up to this length may use the reserve of `charsPerHour`, which no other message may use.
   * `session/cancel` and the answer to a permission request fit, even with the longest ids.
   */
  smallChars: 4 * 1024,

  /** A connection whose tenant refused a charge asks again no sooner than this, however many messages arrive. */
  quotaAskMs: 1_000,

  /** Entries of a tenant's audit log. */
  auditEntries: 10_000,
  /** Refusals of one bearer's token become one audit entry per interval. */
  refusalAuditMs: 60_000,

  // ---- Connections of clients

  /** Time for a client to initialize its connection. */
  handshakeMs: 60_000,

  /** Sessions attached to one connection. Their cursors live in a socket attachment of at most 16 KiB. */
  sessionsPerConnection: 150,

  /** Characters that a plain WebSocket client is sent before it has to prove that it reads. */
  unreadChars: 8 * 1024 * 1024,

  /**
   * A WebSocket client that is silent for this long gets a ping and has `pongMs` to answer. A client that understands
   * no ping is detached when the gateway has sent nothing in that time either.
   */
  socketIdleMs: 2 * 60 * 60 * 1000,
  pongMs: 60_000,

  /**
   * Messages of a Streamable HTTP connection that are in no session's log. This many may wait for the reader, and this
   * many delivered ones are kept for a reader that comes back.
   */
  outboxMessages: 1000,
  outboxChars: 4 * 1024 * 1024,

  /** A Streamable HTTP connection without any request for this long is forgotten. */
  connectionIdleMs: 2 * 60 * 60 * 1000,

  /**
   * A second reader of an event stream waits this long for proof that the first reader is alive: one round trip to a
   * distant client.
   */
  readerProbeMs: 1_000,

  /** Life of a resumable client without a socket. A waiting client costs a few rows. */
  resumeMs: 30 * 24 * 60 * 60 * 1000,
  /** Silence after which a resumable socket counts as lost: five heartbeats at their longest interval. */
  resumeSilentMs: 5 * 60_000,
  /** Size of one message to a resumable client; a single larger event travels alone. */
  resumePageChars: 16 * 1024,
  /** Characters that a resumable client is sent before it acknowledges some of them. */
  resumeWindowChars: 2 * 1024 * 1024,

  // ---- Sessions: prompts, agent processes, readers

  /** Prompts that may wait behind the running one. */
  queueLength: 50,

  /**
   * Unanswered requests that a session's state has to keep: clients' requests to the agent other than prompts, and the
   * agent's requests to clients. Requests for files and terminals do not count; the workspace's host answers those.
   */
  openRequests: 100,

  /** A session without activity for this long stops its agent process and pauses. */
  idleMs: 2 * 60 * 60 * 1000,

  /** Time for a host, an agent process and the agent's answer to `session/new`. */
  agentStartMs: 60_000,

  /** Agent processes that may crash in a row. No further process starts until `crashMemoryMs` after the last crash. */
  crashLimit: 5,
  crashMemoryMs: 60_000,
  /** Pause before the third process in a row; the pause doubles for each process after it. */
  crashBackoffMs: 1_000,

  /** Size of one RPC from a session to a connection; a single larger frame travels alone. */
  deliverChars: 1024 * 1024,

  /** A replay joins the chunks of a message up to about this length. */
  replayChunkChars: 256 * 1024,

  /** Live readers (`text/event-stream`) of one session. Every new event is offered to every reader. */
  watchersPerSession: 100,

  // ---- Sessions: log, index, outbox

  /**
   * Characters per row of the log. SQLite in a Durable Object refuses values over 2 MB. A UTF-16 unit takes at most
   * three bytes of UTF-8, so a row stays below 2 MB for any text.
   */
  rowChars: 600_000,

  /** Characters of history in one session. A session at this limit refuses prompts. */
  historyChars: 100 * 1024 * 1024,

  /** Characters of log per file in the archive. */
  segmentChars: 8 * 1024 * 1024,

  /** Events kept in memory, so that a live reader does not go through SQLite. */
  tailChars: 2 * 1024 * 1024,

  /** Events between two snapshots of the state: a waking session replays this many, give or take a batch. */
  eventsPerSnapshot: 500,

  /** A session collects changes for this long before it writes its row of the index; pause after a failed write. */
  indexDelayMs: 2_000,
  indexRetryMs: 30_000,

  /** Webhook messages that a session keeps for a workspace it could not reach, and the pause before it tries again. */
  webhookMessagesPerSession: 100,
  webhookMessageRetryMs: 5_000,

  // ---- Sessions: import

  /** Longest line of an imported log: the largest WebSocket message and its envelope. */
  importLineBytes: 32 * 1024 * 1024 + 64 * 1024,

  /** Size of one RPC of an import. */
  importChunkBytes: 1024 * 1024,

  /** Largest archive entry that is read whole: `session.json`, or a record in one file. */
  importFileBytes: 8 * 1024 * 1024,

  /** Age at which a crashed import is removed, unless a request for the session removes it earlier. */
  importMs: 60 * 60 * 1000,

  // ---- Host links

  /** Size of one message between host and session; a single larger frame travels alone. */
  linkBatchChars: 1024 * 1024,

  /** Unacknowledged messages from a host to a session. */
  linkMessages: 2,

  /** Unacknowledged characters at which a host stops reading the agent's stdout. */
  hostWindowChars: 8 * 1024 * 1024,

  /** Tail of an agent's stderr kept for the exit report. */
  stderrChars: 8 * 1024,

  // ---- Workspaces: hosts, containers, views

  /** Absence of a host before its sessions are told, unless the workspace's settings say otherwise. */
  hostGraceMs: 120_000,

  /** Silence after which a host is probed: four of its pings. */
  hostSilentMs: 60_000,

  /** Time for a host to answer a probe. */
  probeMs: 5_000,

  /** Pause before a host status message, or the release of a process, is sent again after a failure. */
  hostStatusRetryMs: 5_000,

  /** Time for a container's host to connect, and time for a container to end before it is killed. */
  containerStartMs: 60_000,
  containerStopMs: 30_000,
  /** Time for the turns of a draining container to finish. Cloudflare kills containers 15 minutes after the signal. */
  containerDrainMs: 14 * 60 * 1000,
  /** A container without use for this long is ended, unless the workspace's settings say otherwise. */
  containerSleepMs: 15 * 60 * 1000,
  /** Pause after a failed start, doubled for each further failure up to the maximum. */
  containerBackoffMs: 1_000,
  containerBackoffMaxMs: 5 * 60 * 1000,
  /** A container that ran for this long does not count as a failed start. */
  containerStableMs: 60_000,
  /** Life of the token of a container's host. The host gets a new token after half of it. */
  containerTokenMs: 6 * 60 * 60 * 1000,

  /** A workspace collects changes for this long before it shows them to its watchers. */
  viewDelayMs: 300,

  /** Live readers of one workspace. */
  watchersPerWorkspace: 100,

  // ---- Workspaces: webhooks

  /** Webhook messages that a workspace recognises when a session hands them over twice: a few seconds of many sessions. */
  webhookMessagesRemembered: 10_000,

  /** Webhooks per workspace, length of a webhook's URL, and messages that may wait for one webhook. */
  webhooksPerWorkspace: 20,
  webhookUrlChars: 2000,
  webhookQueue: 1000,
  /** Concurrent requests to webhooks of a workspace. An object may have six connections and needs some itself. */
  webhooksAtOnce: 4,
  /** Time for a receiver to answer. */
  webhookTimeoutMs: 10_000,
  /** Pause after the first failed attempt. The later pauses are multiples of it, see `retry-schedule.ts`. */
  webhookRetryMs: 5_000,
  /** Longest pause that a receiver may ask for. */
  webhookRetryAfterMs: 60 * 60 * 1000,
};

export type Limits = Readonly<typeof DEFAULT_LIMITS>;

/** The limits an operator configured: `text` is a JSON object of names and numbers. The error names a wrong entry. */
export function readLimits(text: string | undefined): Limits {
  if (text === undefined || text === "") return DEFAULT_LIMITS;
  const overrides = JSON.parse(text) as Record<string, unknown>;
  for (const [name, value] of Object.entries(overrides)) {
    if (!Object.hasOwn(DEFAULT_LIMITS, name)) throw new Error(`There is no limit called ${name}`);
    if (typeof value !== "number" || !(value > 0))
      throw new Error(`The limit ${name} must be a positive number`);
  }
  return { ...DEFAULT_LIMITS, ...overrides };
}
