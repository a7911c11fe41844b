/** The host's clocks in one place, so that tests can run them faster. */
export const TIMING = {
  /** The gateway answers `ping` with `pong` without waking its object, so asking often is cheap. */
  pingEveryMs: 15_000,
  pongWithinMs: 10_000,

  retryMinMs: 250,
  retryMaxMs: 10_000,

  /** `npx` may have to download the agent first. */
  initializeMs: 30_000,

  /** Between SIGTERM and SIGKILL. */
  killAfterMs: 5_000,

  /** A session that is starting has the machine to itself before its successor's spare is made ready. */
  spareDelayMs: 500,
  spareRetryMinMs: 1_000,
  spareRetryMaxMs: 60_000,
  /** A spare of an agent that is not the default waits this long for its next session. */
  spareIdleMs: 10 * 60_000,

  /** How long the last items of a stopped run may wait for their acknowledgement. */
  lingerMs: 2_000,
};

export type Timing = typeof TIMING;
