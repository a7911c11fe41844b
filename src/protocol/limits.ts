import { isRecord } from "./json-value.ts";
import { TENANT_LIMITS } from "./tenant-limits.ts";
import { WEBHOOK_LIMITS } from "./webhook-limits.ts";

/**
 * Every number that bounds the system, with its reason, grouped by the subsystem that obeys it. An operator overrides
 * numbers by name in the variable LIMITS (for hosts: ACP_EDGE_LIMITS), see `readLimits`.
 *
 * A name ends with its unit: `Chars` are UTF-16 units, the length of a JavaScript string.
 */
export const DEFAULT_LIMITS = {
  // ---- Frames and ids, everywhere

  /**
   * Largest frame accepted from a client or an agent. Objects share an isolate of 128 MB, and a frame exists in several
   * copies on its way. V8 stores a text with any character outside Latin-1 in two bytes per character, and such a frame
   * takes 8 MB per copy. With eight clients 42 MB of the heap are in use at most. A test gives the gateway a heap of
   * 64 MB: other objects of the isolate have as much again.
   */
  frameChars: 4 * 1024 * 1024,

  /** Longest session id and JSON-RPC id. The ACP SDK's own server has this limit too. */
  idChars: 1024,

  /** Longest message of a reader, who has nothing to say but which session it reads. */
  readerMessageChars: 64 * 1024,

  // ---- HTTP requests

  /** A URL may carry a token; headers may carry two, and additions of proxies. Bodies of the REST API are small. */
  urlChars: 16 * 1024,
  headerChars: 64 * 1024,
  bodyBytes: 1024 * 1024,

  /**
   * Longest pause within a request body, and longest time for a whole body. Imports have no total limit. A phone in a
   * tunnel is back before the pause ends, and the largest frame arrives within the total at 1 Mbit/s.
   */
  bodyStallMs: 30_000,
  bodyMs: 60_000,

  /** Interval of comments on an event stream. Without comments proxies mistake a silent stream for an ended one. */
  keepAliveMs: 15_000,

  // ---- Tokens and links

  /**
   * The published keys of an issuer are fetched again after the maximum age, and for an unknown key id, but not within
   * the cooldown after the last fetch. A fetch ends after the timeout. A failed fetch is repeated after `jwksRetryMs`.
   * While the issuer does not respond, known keys are used until they are `jwksStaleMs` old.
   */
  jwksMaxAgeMs: 10 * 60 * 1000,
  jwksStaleMs: 24 * 60 * 60 * 1000,
  jwksCooldownMs: 30_000,
  jwksTimeoutMs: 5_000,
  jwksRetryMs: 5_000,

  /** A client is warned this long before its token expires, so that it can renew the token in place. */
  tokenWarningMs: 60_000,

  /** Age of a cached answer about a revocation, well under the second that a revocation may take to have effect. */
  revocationCacheMs: 500,
  ...TENANT_LIMITS,

  // ---- Connections of clients

  /** Time for a client to initialize its connection. */
  handshakeMs: 60_000,

  /** Sessions attached to one connection. Their cursors live in a socket attachment of at most 16 KiB. */
  sessionsPerConnection: 150,

  /**
   * Characters that a plain WebSocket client is sent before it has to prove that it reads. The runtime keeps all of them
   * in memory, at up to three bytes each.
   */
  unreadChars: 2 * 1024 * 1024,

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

  /** Characters of the agent's unanswered requests together: a client that attaches gets all of them in one page. */
  openRequestChars: 4 * 1024 * 1024,

  /** Credentials of clients that a session keeps for its agent, and their length together. */
  credentialCount: 1000,
  credentialChars: 4 * 1024 * 1024,

  /**
   * A session without activity for this long stops its agent process and pauses. Somebody whose editor is open comes
   * back to it; a process without any client is cheaper to start again than to keep.
   */
  idleMs: 2 * 60 * 60 * 1000,
  unattendedIdleMs: 30 * 60 * 1000,

  /** How long a process goes on for the agent's answer to `session/close` or `session/delete`: some write files. */
  farewellMs: 3000,

  /** Time for a host, an agent process and the agent's answer to `session/new`. */
  agentStartMs: 60_000,

  /** Time for an agent that was started again to take over its mode, model and options before prompts go on. */
  settingsMs: 10_000,

  /** Agent processes that may crash in a row. No further process starts until `crashMemoryMs` after the last crash. */
  crashLimit: 5,
  crashMemoryMs: 60_000,
  /** Pause before the third process in a row; the pause doubles for each process after it. */
  crashBackoffMs: 1_000,

  /** Size of one RPC between a session and a connection, either way; a single larger frame travels alone. */
  deliverChars: 1024 * 1024,

  /**
   * Pages of a session that are under way to its clients at a time; a larger page goes alone. A page exists in several
   * copies until its client has read it. A client that does not read holds up the others for `pageWaitMs` at most.
   */
  pagesInFlightChars: 4 * 1024 * 1024,
  pageWaitMs: 2_000,

  /** A replay joins the chunks of a message up to about this length. */
  replayChunkChars: 256 * 1024,

  /** Live readers (`text/event-stream`) of one session. Every new event is offered to every reader. */
  watchersPerSession: 100,
  /** The part of these places that one subject may take, except the owner: colleagues find a place. */
  watchersPerSubject: 25,
  /** The part of these places that bearers of links may take: the workspace's own callers have the rest. */
  linkWatchersPerSession: 25,

  /**
   * Clients attached to one session, present or away, and the part of these places that bearers of links may take.
   * Every new event is rendered for every client that is present. The owner always finds a place.
   */
  clientsPerSession: 400,
  linkClientsPerSession: 100,

  /**
   * Characters that attaching readers may add to a session's log in an hour: bearers of links together, and the
   * workspace's own readers together. A request to read and its answer are in the log, although they are no history.
   */
  readerLogCharsPerHour: 4 * 1024 * 1024,

  // ---- Sessions: log, index, outbox

  /**
   * Characters per row of the log. SQLite in a Durable Object refuses values over 2 MB. A UTF-16 unit takes at most
   * three bytes of UTF-8, so a row stays below 2 MB for any text.
   */
  rowChars: 600_000,

  /** Characters of history in one session. A session at this limit refuses prompts. */
  historyChars: 100 * 1024 * 1024,

  /** Characters of log per file in the archive. A reader of archived history holds one file in memory. */
  segmentChars: 4 * 1024 * 1024,

  /** The whole log of a session goes to the archive after this time at rest; 0 keeps it in the session's object. */
  archiveAfterMs: 30 * 24 * 60 * 60 * 1000,

  /** Events kept in memory, so that a live reader does not go through SQLite. */
  tailChars: 2 * 1024 * 1024,

  /**
   * Events between two snapshots of the state: a waking session replays this many, give or take a batch. A snapshot costs
   * a row. A session wakes most often between turns, so it takes one then, unless it has only a few events to replay.
   */
  eventsPerSnapshot: 500,
  eventsPerTurnSnapshot: 30,

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

  /**
   * Streamed items leave a host in one message per window, because each message costs a write of the session and a
   * delivery to each client. The first item after a pause, requests, answers and ends leave at once. A person reads
   * twelve pieces a second as a flow. 0 holds nothing back. Host and gateway each have the limit, and the shorter holds.
   */
  chunkWindowMs: 80,

  /** Unacknowledged messages from a host to a session. */
  linkMessages: 2,

  /**
   * An item of a host, or a frame of a client, that ended the session's object this often is skipped, and a webhook
   * message that the workspace failed to take as often. Restarts of the runtime end objects as well, so one end proves
   * nothing.
   */
  itemTries: 3,

  /** Unacknowledged characters at which a host stops reading the agent's stdout. */
  hostWindowChars: 8 * 1024 * 1024,

  /** Memory of a host for the output of all terminals of one agent, and of all agents. The oldest output is dropped. */
  agentTerminalBytes: 32 * 1024 * 1024,
  hostTerminalBytes: 256 * 1024 * 1024,

  /**
   * Characters of a terminal's output that its host reports to the session as they come. Beyond that it reports the end
   * alone: an editor shows the command to a person, and the session's log keeps every piece.
   */
  terminalLogChars: 128 * 1024,

  /** Tail of an agent's stderr kept for the exit report. */
  stderrChars: 8 * 1024,

  // ---- Workspaces: hosts, containers, views

  /** Longest answer of an agent to `initialize`. A workspace keeps one per agent and host, and every client gets it. */
  initializeChars: 512 * 1024,

  /**
   * Hosts connected to one workspace. Its object reads all of them for each placement and each view. Twice as many
   * sockets may be open, because a host that comes back has two until its old one is found dead.
   */
  hostsPerWorkspace: 200,

  /** Absence of a host before its sessions are told, unless the workspace's settings say otherwise. */
  hostGraceMs: 120_000,

  /**
   * A gateway that was away itself waits this long for its hosts before their sessions are told, at most the grace.
   * Hosts wait up to ten seconds between attempts to connect, and one attempt may take ten seconds.
   */
  hostReturnMs: 20_000,

  /**
   * A host that has been silent for four of its pings is probed. A workspace looks for silent hosts this often while
   * sessions depend on them: each look costs a row, so a lost host of idle sessions may go unnoticed for this long.
   */
  hostSilentMs: 60_000,
  hostCheckMs: 5 * 60_000,

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

  ...WEBHOOK_LIMITS,
};

/** Limits that the platform bounds: the size of a value in SQLite, of a socket attachment, of a WebSocket message. */
const LARGEST: Readonly<Record<string, number>> = {
  // workerd hangs on messages over 32 MiB. So large a frame needs an isolate with more memory than Cloudflare's.
  frameChars: 16 * 1024 * 1024,
  rowChars: DEFAULT_LIMITS.rowChars,
  initializeChars: DEFAULT_LIMITS.rowChars,
  sessionsPerConnection: DEFAULT_LIMITS.sessionsPerConnection,
};

/** Limits that 0 switches off. */
const MAY_BE_ZERO: ReadonlySet<string> = new Set(["chunkWindowMs", "archiveAfterMs"]);

export type Limits = Readonly<typeof DEFAULT_LIMITS>;

/** The limits an operator configured: `text` is a JSON object of names and numbers. The error names a wrong entry. */
export function readLimits(text: string | undefined): Limits {
  if (text === undefined || text === "") return DEFAULT_LIMITS;
  const overrides = objectIn(text);
  for (const [name, value] of Object.entries(overrides)) {
    if (!Object.hasOwn(DEFAULT_LIMITS, name)) throw new Error(`There is no limit called ${name}`);
    const mayBeZero = MAY_BE_ZERO.has(name);
    if (typeof value !== "number" || !(value > 0 || (value === 0 && mayBeZero)))
      throw new Error(`The limit ${name} must be a positive number${mayBeZero ? " or 0" : ""}`);
    const largest = LARGEST[name];
    if (largest !== undefined && value > largest)
      throw new Error(`The limit ${name} must be at most ${largest}`);
  }
  return { ...DEFAULT_LIMITS, ...overrides };
}

function objectIn(text: string): Record<string, unknown> {
  try {
    const value: unknown = JSON.parse(text);
    if (isRecord(value)) return value;
  } catch {
    // The error below says more than that of the parser.
  }
  throw new Error("The limits must be a JSON object of names and numbers");
}
