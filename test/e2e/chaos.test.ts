/** Random faults lose nothing, repeat nothing and invent nothing. `npm run chaos` repeats a run, or makes a longer one. */
import { expect, test } from "vitest";
import { checkSession, type Evidence, tokensOf } from "./chaos/oracle.ts";
import { optionsFor, report, runChaos, type Verdict } from "./chaos/run.ts";
import type { LogEvent } from "./client.ts";

const SEED = Number(process.env.CHAOS_SEED ?? Math.floor(Math.random() * 2 ** 31));
const MINUTES = Number(process.env.CHAOS_MINUTES ?? 1.9);
/** Starting, healing and the checks take a while on a busy machine. */
const TIMEOUT_MS = MINUTES * 60_000 + 360_000;

test(`[I1] [I6] everybody saw the same after random faults (CHAOS_SEED=${SEED})`, {
  timeout: TIMEOUT_MS,
}, async () => {
  const options = optionsFor(SEED, MINUTES);
  const verdict = await runChaos(options);
  const text = report(options, verdict);
  console.log(text);
  if (verdict.violations.length > 0) throw new Error(text);
  expect(verdict.counts.faults).toBe(options.faults);
  expect(verdict.counts.turns - verdict.counts.lost).toBeGreaterThan(0);
  expectRed(verdict);
});

/** An oracle that overlooks a lost, repeated or exchanged update proves nothing. */
function expectRed({ evidence, agents, answers }: Verdict): void {
  const whole = evidence.find(({ log }) => tokensOf(log).length > 2) as Evidence;
  const at = whole.log.findIndex((event) => tokensOf([event]).length > 0) + 1;
  const without = <T>(list: readonly T[]) => list.toSpliced(at, 1);
  const renumbered = without(whole.log).map((event, i): LogEvent => ({ ...event, seq: i + 1 }));
  const broken: Record<string, Evidence> = {
    "a gap in the log": { ...whole, log: without(whole.log) },
    "an update that is not in the log": { ...whole, log: renumbered, lines: without(whole.lines) },
    "an update that a client missed": { ...whole, seen: changed(whole.seen, (list) => list.toSpliced(1, 1)) },
    "an update that a client got twice": {
      ...whole,
      seen: changed(whole.seen, (list) => list.toSpliced(1, 0, list[1] as string)),
    },
    "an event that a reader missed": { ...whole, read: changed(whole.read, without) },
    "a prompt without an answer": {
      ...whole,
      prompts: whole.prompts.map((prompt) => ({ ...prompt, end: undefined })),
    },
  };
  for (const [what, one] of Object.entries(broken))
    expect(checkSession(one, agents, answers), what).not.toEqual([]);
  const twice = { ...agents, journals: [...agents.journals, ...agents.journals] };
  expect(checkSession(whole, twice, answers), "a prompt that was given twice").not.toEqual([]);
}

function changed<T>(
  lists: ReadonlyMap<string, readonly T[]>,
  change: (list: readonly T[]) => readonly T[],
): ReadonlyMap<string, readonly T[]> {
  return new Map([...lists].map(([name, list]) => [name, change(list)]));
}
