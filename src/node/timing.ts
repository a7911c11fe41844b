/** The intervals and timeouts of the host and the command. They are one value so that tests can shorten them. */
export const DEFAULT_TIMING = {
  /** The gateway's runtime answers `ping` with `pong` without waking the object, so frequent heartbeats are cheap. */
  pingEveryMs: 15_000,
  pongWithinMs: 10_000,

  /** How long the opening handshake of a socket may take. */
  dialMs: 10_000,

  retryMinMs: 250,
  retryMaxMs: 10_000,

  /** How long an agent may take to answer `initialize`; `npx` may have to download it first. */
  initializeMs: 30_000,

  /** Between SIGTERM and SIGKILL. */
  killAfterMs: 5_000,

  /** How long a file request may take, and a command in a terminal, which may be a development server. */
  ioMs: 30_000,
  terminalMs: 24 * 60 * 60_000,

  /** The delay before the warm process that a session took is replaced: the new session needs the processor first. */
  warmDelayMs: 500,
  warmRetryMinMs: 1_000,
  warmRetryMaxMs: 60_000,
  /** How long an agent that is not the default keeps its warm process without a new session. */
  warmIdleMs: 10 * 60_000,

  /** How long a link waits for the session to acknowledge the last items of a stopped run. */
  lingerMs: 2_000,

  /** `git status`: delay after a sign of change, minimum interval, interval while agents run, timeout. */
  gitDelayMs: 300,
  gitEveryMs: 2_000,
  gitPollMs: 20_000,
  gitTimeoutMs: 10_000,

  /** Interval between measurements of the memory and processes of agents. */
  usageEveryMs: 2_000,

  /** Load reports: delay after a change, and interval while agents run. */
  loadDelayMs: 200,
  loadEveryMs: 30_000,
};

export type Timing = typeof DEFAULT_TIMING;

/** Reads overrides from a JSON object of names and milliseconds. Throws an error that names the wrong entry. */
export function readTiming(text: string | undefined): Timing {
  const overrides = JSON.parse(text || "{}") as Record<string, unknown>;
  for (const [name, value] of Object.entries(overrides)) {
    if (!(name in DEFAULT_TIMING)) throw new Error(`There is no timing called ${name}`);
    if (typeof value !== "number" || !(value > 0))
      throw new Error(`The timing ${name} must be a positive number`);
  }
  return { ...DEFAULT_TIMING, ...overrides };
}
