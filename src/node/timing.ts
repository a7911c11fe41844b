/** The host's clocks in one place, so that tests can run them faster. */
export const DEFAULT_TIMING = {
  /** The gateway answers `ping` with `pong` without waking its object, so asking often is cheap. */
  pingEveryMs: 15_000,
  pongWithinMs: 10_000,

  /** A gateway that does not answer at all is given up after this. */
  dialMs: 10_000,

  retryMinMs: 250,
  retryMaxMs: 10_000,

  /** `npx` may have to download the agent first. */
  initializeMs: 30_000,

  /** Between SIGTERM and SIGKILL. */
  killAfterMs: 5_000,

  /** What a file request may take, and a command in a terminal; the latter may well be a server. */
  ioMs: 30_000,
  terminalMs: 24 * 60 * 60_000,

  /** A session that is starting has the machine to itself before its successor's spare is made ready. */
  warmDelayMs: 500,
  warmRetryMinMs: 1_000,
  warmRetryMaxMs: 60_000,
  /** A spare of an agent that is not the default waits this long for its next session. */
  warmIdleMs: 10 * 60_000,

  /** How long the last items of a stopped run may wait for their acknowledgement. */
  lingerMs: 2_000,

  /** Looking at the workspace's files: after a sign of change, not more often than, while agents run, at most. */
  gitDelayMs: 300,
  gitEveryMs: 2_000,
  gitPollMs: 20_000,
  gitTimeoutMs: 10_000,

  /** Looking at what agents use. */
  usageEveryMs: 2_000,

  /** Telling the load: after a change, and while agents run. */
  loadDelayMs: 200,
  loadEveryMs: 30_000,
};

export type Timing = typeof DEFAULT_TIMING;

/** Takes a JSON object of names and milliseconds; an error names what is wrong. */
export function readTiming(text: string | undefined): Timing {
  const overrides = JSON.parse(text || "{}") as Record<string, unknown>;
  for (const [name, value] of Object.entries(overrides)) {
    if (!(name in DEFAULT_TIMING)) throw new Error(`There is no timing called ${name}`);
    if (typeof value !== "number" || !(value > 0))
      throw new Error(`The timing ${name} must be a positive number`);
  }
  return { ...DEFAULT_TIMING, ...overrides };
}
