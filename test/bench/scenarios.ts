import { performance } from "node:perf_hooks";
import type { BenchClient, Load } from "./client.ts";
import type { Contender } from "./contender.ts";
import { replay, type Sample, type Stage, sample, timed, withNewSession, withSessions } from "./stage.ts";
import { median, quantile } from "./stats.ts";

export type Scenario = {
  id: string;
  title: string;
  /** Updates per measurement. A scenario without updates measures the time of one turn. */
  updates: number;
  prepare(contender: Contender): Promise<Stage>;
};

const EMPTY_TURN: Load = { count: 0, size: 1 };
const TURNS = 300;
const SMALL: Load = { count: 20_000, size: 120 };
const LARGE: Load = { count: 2_000, size: 16 * 1024 };
const SESSIONS = 20;
const SHARE: Load = { count: 1_000, size: 120 };
const HISTORY: Load = { count: 10_000, size: 120 };

export const scenarios: readonly Scenario[] = [
  {
    id: "a",
    title: `round trip of an empty turn (median of ${TURNS} in a row)`,
    updates: 0,
    prepare: (contender) => withSessions(contender, 1, emptyTurns),
  },
  {
    id: "b",
    title: "stream 20,000 × 120 B",
    updates: SMALL.count,
    prepare: (contender) => withNewSession(contender, SMALL),
  },
  {
    id: "c",
    title: "stream 2,000 × 16 KiB",
    updates: LARGE.count,
    prepare: (contender) => withNewSession(contender, LARGE),
  },
  {
    id: "d",
    title: `${SESSIONS} sessions at once, 1,000 × 120 B each`,
    updates: SESSIONS * SHARE.count,
    prepare: (contender) => withSessions(contender, SESSIONS, allAtOnce),
  },
  {
    id: "e",
    title: "replay of 10,000 × 120 B (session/load on a new connection)",
    updates: HISTORY.count,
    prepare: (contender) => replay(contender, HISTORY),
  },
];

function allAtOnce(client: BenchClient, sessionIds: string[]): Promise<Sample> {
  return timed(client, () => Promise.all(sessionIds.map((sessionId) => client.stream(sessionId, SHARE))));
}

async function emptyTurns(client: BenchClient, [sessionId = ""]: string[]): Promise<Sample> {
  const times: number[] = [];
  for (let i = 0; i < TURNS; i++) {
    const started = performance.now();
    await client.stream(sessionId, EMPTY_TURN);
    times.push(performance.now() - started);
  }
  return sample(client, median(times), quantile(times, 0.99));
}
