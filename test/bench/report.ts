import { readFileSync } from "node:fs";
import { cpus, loadavg } from "node:os";
import type { Scenario } from "./scenarios.ts";
import type { Sample } from "./stage.ts";
import { median, quantile } from "./stats.ts";
import { addFaults, type Faults, noFaults } from "./tracker.ts";

export type Row = {
  contender: string;
  ms: number;
  p99Ms?: number;
  updatesPerSecond?: number;
  /** The ratio to `direct` in the same round: median, least and most. Absent when `direct` did not run. */
  ratio?: { median: number; min: number; max: number };
  /** Whether client and server agreed to compress messages. */
  compressed: boolean;
  faults: Faults;
  failure?: string;
};

export type Result = { id: string; title: string; rows: Row[] };

/** One entry per round; absent where the contender failed. */
export type Rounds = Map<string, Sample>[];

export function summarize(
  scenario: Scenario,
  names: string[],
  rounds: Rounds,
  failures: Map<string, string>,
): Result {
  const rows = names.map((contender): Row => {
    const samples = rounds.flatMap((round) => round.get(contender) ?? []);
    const ms = median(samples.map((sample) => sample.ms));
    const ratios = rounds.flatMap((round) => {
      const [own, direct] = [round.get(contender), round.get("direct")];
      return own && direct ? own.ms / direct.ms : [];
    });
    const p99s = samples.flatMap(({ p99 }) => p99 ?? []);
    const failure = failures.get(contender);
    return {
      contender,
      ms,
      ...(p99s.length > 0 && { p99Ms: median(p99s) }),
      ...(scenario.updates > 0 && { updatesPerSecond: (scenario.updates / ms) * 1000 }),
      ...(ratios.length > 0 && {
        ratio: { median: median(ratios), min: quantile(ratios, 0), max: quantile(ratios, 1) },
      }),
      compressed: samples.some(({ compressed }) => compressed),
      faults: samples.map(({ faults }) => faults).reduce(addFaults, noFaults()),
      ...(failure !== undefined && { failure }),
    };
  });
  return { id: scenario.id, title: scenario.title, rows };
}

export function environment() {
  const version = (name: string) => {
    const file = new URL(`../../node_modules/${name}/package.json`, import.meta.url);
    return (JSON.parse(readFileSync(file, "utf8")) as { version: string }).version;
  };
  return {
    cpu: cpus()[0]?.model ?? "unknown",
    cores: cpus().length,
    loadBefore: loadavg()[0] ?? 0,
    node: process.version,
    workerd: version("workerd"),
    sdk: version("@agentclientprotocol/sdk"),
    stdioToWs: version("stdio-to-ws"),
  };
}

export type Environment = ReturnType<typeof environment>;

export function heading(env: Environment, rounds: number): string {
  return [
    `${env.cpu} × ${env.cores}, load ${env.loadBefore.toFixed(2)} before the start`,
    `node ${env.node}, workerd ${env.workerd}, ACP SDK ${env.sdk}, stdio-to-ws ${env.stdioToWs}`,
    `${rounds} rounds after a warm-up; every round runs all contenders one after another, in rotating order`,
    "× direct: time compared with the direct pipe in the same round, median over rounds (least – most)",
  ].join("\n");
}

export const NOTES = `Notes
  The same client (the SDK's, which validates every message) and the same agent (the demo agent) for all.
  Only the turn or the load is timed; processes, connections and sessions are there before.
  (d) One connection carries all sessions. direct, stdio-to-ws and sdk-server run them in one agent process,
      acp-edge runs one process per session.
  (e) acp-edge replays from its own log, without the agent, and joins the chunks of a message on the way.
      The others have no log: there the agent itself reads its history from disk, if it can.
  (f) Each session has 2,000 updates of history. × compares with an id that is not there, asked for just before.
      The first time, workerd makes the object's database file if there is none, which takes longer than to open one.
  lost, repeated, reordered: updates over all rounds and the warm-up, by the number each one carries.
  deflate: the client offers compression of WebSocket messages, as browsers do; whether the server took it.
  acp-edge makes every update durable before it passes it on; the others keep nothing.`;

export function table({ id, title, rows }: Result): string {
  const turns = rows.some(({ p99Ms }) => p99Ms !== undefined);
  const head = [
    "",
    "ms",
    turns ? "p99 ms" : "updates/s",
    "× direct",
    "",
    "lost",
    "repeated",
    "reordered",
    "deflate",
  ];
  const lines = rows.map((row) =>
    row.failure === undefined ? cells(row) : [row.contender, "failed:", row.failure],
  );
  const widths = head.map((name, column) => {
    const texts = lines.filter((line) => line.length === head.length).map((line) => line[column] ?? "");
    return Math.max(name.length, ...texts.map((text) => text.length), column === 0 ? 12 : 0);
  });
  const format = (line: string[]) =>
    line.length < head.length
      ? `  ${line.join("  ")}`
      : `  ${line.map((text, i) => (i === 0 ? text.padEnd(widths[i]!) : text.padStart(widths[i]!))).join("  ")}`;
  return [`(${id}) ${title}`, ...[head, ...lines].map(format)].join("\n");
}

function cells({ contender, ms, p99Ms, updatesPerSecond, ratio, faults, compressed }: Row): string[] {
  return [
    contender,
    number(ms),
    p99Ms !== undefined ? number(p99Ms) : Math.round(updatesPerSecond ?? 0).toLocaleString("en"),
    ratio ? ratio.median.toFixed(2) : "n/a",
    ratio ? `(${ratio.min.toFixed(2)} – ${ratio.max.toFixed(2)})` : "",
    ...[faults.lost, faults.repeated, faults.reordered].map(String),
    compressed ? "yes" : "no",
  ];
}

const number = (value: number) => value.toFixed(value < 10 ? 3 : value < 100 ? 1 : 0);
