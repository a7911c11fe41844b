/** Contenders that are started and warmed up, ready for repeated measurements. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { performance } from "node:perf_hooks";
import { setTimeout as sleep } from "node:timers/promises";
import { BenchClient, type Load } from "./client.ts";
import type { Contender, Running } from "./contender.ts";
import { addFaults, type Faults, noFaults } from "./tracker.ts";

/** One measurement. Contenders are compared by `ms`. */
export type Sample = { ms: number; p99?: number; compressed: boolean; faults: Faults };

export type Stage = { run(): Promise<Sample>; close(): Promise<void> };

/** How long after the end a repeated update can still arrive. */
const SETTLE_MS = 30;
/** How much of a contender's log is shown with its failure. */
const LOG_LINES = 12;

export async function timed(client: BenchClient, work: () => Promise<unknown>): Promise<Sample> {
  const started = performance.now();
  await work();
  return sample(client, performance.now() - started);
}

export async function sample(client: BenchClient, ms: number, p99?: number): Promise<Sample> {
  await sleep(SETTLE_MS);
  const { compressed } = client;
  return { ms, ...(p99 !== undefined && { p99 }), compressed, faults: client.collectFaults() };
}

/** All sessions on one connection, kept over all rounds. */
export function withSessions(
  contender: Contender,
  count: number,
  measure: (client: BenchClient, sessionIds: string[]) => Promise<Sample>,
): Promise<Stage> {
  return onStage(contender, { agentKeepsState: false }, async (running, cleanup) => {
    const directory = temporaryDirectory(cleanup);
    const client = await BenchClient.open(await running.connect());
    cleanup.defer(() => client.close());
    const sessionIds: string[] = [];
    for (let i = 0; i < count; i++) sessionIds.push(await client.newSession(directory));
    return () => measure(client, sessionIds);
  });
}

/** A session for each measurement, so that no history grows without end; a short turn warms it up. */
export function withNewSession(contender: Contender, load: Load): Promise<Stage> {
  return onStage(contender, { agentKeepsState: false }, async (running, cleanup) => {
    const directory = temporaryDirectory(cleanup);
    const client = await BenchClient.open(await running.connect());
    cleanup.defer(() => client.close());
    return async () => {
      const sessionId = await client.newSession(directory);
      await client.stream(sessionId, { count: load.count / 20, size: load.size });
      const result = await timed(client, () => client.stream(sessionId, load));
      await client.closeSession(sessionId);
      return result;
    };
  });
}

/** Every measurement uses a new connection, as an editor that was opened again; only the load itself is timed. */
export function replay(contender: Contender, load: Load): Promise<Stage> {
  return onStage(contender, { agentKeepsState: true }, async (running, cleanup) => {
    const directory = temporaryDirectory(cleanup);
    const author = await BenchClient.open(await running.connect());
    const sessionId = await author.newSession(directory);
    await author.stream(sessionId, load);
    await author.close();
    return async () => {
      const client = await BenchClient.open(await running.connect());
      try {
        return await timed(client, () => client.load(sessionId, directory, load));
      } finally {
        await client.close();
      }
    };
  });
}

/** Starts the contender and measures once for warm-up, of which only the faults count. */
async function onStage(
  contender: Contender,
  { agentKeepsState }: { agentKeepsState: boolean },
  prepare: (running: Running, cleanup: AsyncDisposableStack) => Promise<() => Promise<Sample>>,
): Promise<Stage> {
  await using cleanup = new AsyncDisposableStack();
  const running = await contender.start(agentKeepsState ? temporaryDirectory(cleanup) : undefined);
  cleanup.defer(() => running.stop());
  const explained = async <T>(work: () => Promise<T>): Promise<T> => {
    try {
      return await work();
    } catch (error) {
      const log = running.log?.().trimEnd().split("\n").slice(-LOG_LINES) ?? [];
      throw new Error([error instanceof Error ? error.message : String(error), ...log].join("\n    "));
    }
  };
  const measure = await explained(() => prepare(running, cleanup));
  let { faults } = await explained(measure);

  const kept = cleanup.move();
  return {
    run: async () => {
      const result = await explained(measure);
      const before = faults;
      faults = noFaults();
      return { ...result, faults: addFaults(before, result.faults) };
    },
    close: () => kept.disposeAsync(),
  };
}

const temporary = new Set<string>();

function temporaryDirectory(cleanup: AsyncDisposableStack): string {
  const directory = mkdtempSync(join(tmpdir(), "acp-edge-bench-"));
  temporary.add(directory);
  cleanup.defer(() => remove(directory));
  return directory;
}

function remove(directory: string): void {
  temporary.delete(directory);
  rmSync(directory, { recursive: true, force: true, maxRetries: 3 });
}

process.once("exit", () => temporary.forEach(remove));
