/**
 * `npm run bench`: how much the gateway costs, next to the alternatives, measured on this machine now.
 *
 * Machines differ and are never quiet, so contenders are compared within a round, back to back and in
 * rotating order, and what is reported is the median of these ratios.
 */
import { parseArgs } from "node:util";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { contenders } from "./contenders.ts";
import { loadProbes } from "./load.ts";
import { environment, heading, NOTES, type Result, type Rounds, summarize, table } from "./report.ts";
import { type Comparison, comparisonTable, probes } from "./rights.ts";
import { type Scenario, scenarios } from "./scenarios.ts";
import type { Stage } from "./stage.ts";

const USAGE = `npm run bench -- [--rounds N] [--only a,b] [--contenders direct,acp-edge] [--json]

${[...scenarios, ...probes, ...loadProbes].map(({ id, title }) => `  ${id}  ${title}`).join("\n")}`;

setFlagsFromString("--expose-gc");
const collectGarbage = runInNewContext("gc") as () => void;

async function main(): Promise<boolean> {
  const { values } = parseArgs({
    options: {
      rounds: { type: "string", default: "5" },
      only: { type: "string" },
      contenders: { type: "string" },
      json: { type: "boolean", default: false },
      help: { type: "boolean", default: false },
    },
  });
  const print = (text: string) => values.json || console.log(text);
  if (values.help) {
    console.log(USAGE);
    return true;
  }
  const rounds = Number(values.rounds);
  if (!Number.isInteger(rounds) || rounds < 1) throw new Error("--rounds: a number from 1");
  const chosen = pick("--only", [...scenarios, ...probes, ...loadProbes], ({ id }) => id, values.only);
  const names = pick("--contenders", contenders, ({ name }) => name, values.contenders).map(
    ({ name }) => name,
  );

  const env = environment();
  const results: Result[] = [];
  print(heading(env, rounds));
  const comparisons: Comparison[] = [];
  for (const one of chosen) {
    if ("prepare" in one) {
      const result = await measure(one, names, rounds);
      results.push(result);
      print(`\n${table(result)}`);
    } else {
      const compared = await one.measure();
      comparisons.push(...compared);
      for (const each of compared) print(`\n${comparisonTable(each)}`);
    }
  }
  print(`\n${NOTES}`);
  if (values.json) console.log(JSON.stringify({ environment: env, rounds, results, comparisons }, null, 2));
  return results.every(({ rows }) => rows.every(({ failure }) => failure === undefined));
}

async function measure(scenario: Scenario, names: string[], count: number): Promise<Result> {
  await using cleanup = new AsyncDisposableStack();
  const stages = new Map<string, Stage>();
  const failures = new Map<string, string>();
  /** A contender's failure is a result and does not stop the others. */
  const attempt = async (name: string, work: () => Promise<void>) => {
    try {
      await work();
    } catch (error) {
      stages.delete(name);
      failures.set(name, error instanceof Error ? error.message : String(error));
    }
  };

  for (const contender of contenders.filter(({ name }) => names.includes(name))) {
    await attempt(contender.name, async () => {
      const stage = await scenario.prepare(contender);
      cleanup.defer(() => stage.close());
      stages.set(contender.name, stage);
    });
  }

  const rounds: Rounds = [];
  for (let round = 0; round < count; round++) {
    const samples: Rounds[number] = new Map();
    for (const [name, stage] of rotate([...stages], round)) {
      collectGarbage();
      await attempt(name, async () => {
        samples.set(name, await stage.run());
      });
    }
    rounds.push(samples);
  }
  return summarize(scenario, names, rounds, failures);
}

function rotate<T>(items: T[], by: number): T[] {
  const at = by % Math.max(1, items.length);
  return [...items.slice(at), ...items.slice(0, at)];
}

function pick<T>(
  option: string,
  all: readonly T[],
  nameOf: (item: T) => string,
  list?: string,
): readonly T[] {
  if (list === undefined) return all;
  const wanted = list.split(",").map((name) => name.trim());
  const unknown = wanted.find((name) => !all.some((item) => nameOf(item) === name));
  if (unknown !== undefined)
    throw new Error(`${option}: ${unknown} is none of ${all.map(nameOf).join(", ")}`);
  return all.filter((item) => wanted.includes(nameOf(item)));
}

// Child processes are ended on exit, see children.ts and contenders.ts.
for (const signal of ["SIGINT", "SIGTERM", "SIGHUP"] as const) process.once(signal, () => process.exit(1));

main().then(
  (ok) => process.exit(ok ? 0 : 1),
  (error: unknown) => {
    console.error(error instanceof Error ? error.message : error);
    process.exit(1);
  },
);
