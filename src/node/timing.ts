/** The intervals and timeouts of the host and the command. They are one value so that tests can shorten them. */
export const DEFAULT_TIMING = {
  /** The gateway's runtime answers `ping` with `pong` without waking the object, so frequent heartbeats are cheap. */
  pingEveryMs: 15_000,
  pongWithinMs: 10_000,

  /** How long the opening handshake of a socket may take. */
  dialMs: 10_000,

  /**
   * Delays before a lost socket is dialled again, see `reconnect-delay.ts`. The first one is between the spreads: a
   * gateway with 100,000 clients is dialled about 20,000 times a second after it cut them all. A gateway on this machine
   * gets all its clients back within three seconds of its restart.
   */
  spreadMinMs: 500,
  spreadMaxMs: 5_000,
  localSpreadMs: 500,
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

  /**
   * How long output waits that may end in the beginning of a secret: the minimum after one character, twice as long
   * after each further one. The pieces of a text that a model streams are rarely further apart than the maximum.
   */
  holdMinMs: 50,
  holdMaxMs: 1_000,

  /** Load reports: delay after a change, and interval while agents run. */
  loadDelayMs: 200,
  loadEveryMs: 30_000,
};

export type Timing = typeof DEFAULT_TIMING;

/** Reads overrides from a JSON object of names and milliseconds. Throws an error that names the wrong entry. */
export function readTiming(text: string | undefined, defaults: Timing = DEFAULT_TIMING): Timing {
  const overrides = JSON.parse(text || "{}") as Record<string, unknown>;
  for (const [name, value] of Object.entries(overrides)) {
    if (!(name in DEFAULT_TIMING)) throw new Error(`There is no timing called ${name}`);
    if (typeof value !== "number" || !(value > 0))
      throw new Error(`The timing ${name} must be a positive number`);
  }
  return { ...defaults, ...overrides };
}
