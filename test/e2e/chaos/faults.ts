/** The faults, how often each happens, and the schedule of those that happened. */
import { existsSync } from "node:fs";
import { DatabaseSync } from "node:sqlite";
import { setTimeout as sleep } from "node:timers/promises";
import type { Random } from "../../fixtures/random.ts";
import type { BadNetwork } from "../bad-network.ts";
import { type Stage, signal } from "./stage.ts";

/** Rough faults cost turns: they kill hosts and agents. */
type Kind = { weight: number; isRough?: true; ends?: true; act: (context: Context) => Promise<string> };

type Context = { stage: Stage; random: Random; bridges: readonly number[] };

/** One fault that happened, for the report. */
export type Happened = { at: number; fault: string };

const CHURN_MS = 1_200;

const KINDS: Record<string, Kind> = {
  cut: {
    weight: 40,
    act: (context) => onNetwork(context, async (network) => network.cut()),
  },
  "half-open": {
    weight: 10,
    act: (context) => onNetwork(context, async (network) => network.freeze()),
  },
  "black hole": {
    weight: 10,
    act: (context) =>
      onNetwork(context, async (network) => {
        network.hold();
        await pause(context);
        network.release();
      }),
  },
  refuse: {
    weight: 10,
    act: (context) =>
      onNetwork(context, async (network) => {
        network.refuse(true);
        network.cut();
        await pause(context);
        network.refuse(false);
      }),
  },
  delay: {
    weight: 10,
    act: (context) =>
      onNetwork(context, async (network) => {
        network.delay(1 + context.random.below(30));
        await pause(context);
        network.delay(0);
      }),
  },
  "stop agent": {
    weight: 4,
    act: (context) => stopFor(context, context.random.pick(context.stage.agents())),
  },
  "stop bridge": { weight: 3, act: (context) => stopFor(context, context.random.pick(context.bridges)) },
  "stop host": {
    weight: 4,
    act: async (context) => {
      const host = context.random.pick([...context.stage.hosts.values()]);
      host.process.kill("SIGSTOP");
      await pause(context);
      host.process.kill("SIGCONT");
      return host.name;
    },
  },
  "stop workerd": { weight: 3, act: (context) => stopFor(context, context.stage.workerd()) },
  "stop gateway": {
    weight: 2,
    act: (context) => alone(() => stopFor(context, context.stage.gatewayProcess())),
  },
  "kill workerd": { weight: 1, ends: true, act: async ({ stage }) => `${kill(stage.workerd())}` },
  "kill gateway": {
    weight: 0.4,
    ends: true,
    act: ({ stage }) => alone(async () => `${kill(stage.gatewayProcess())}`),
  },
  "kill runner": {
    weight: 0.15,
    ends: true,
    act: (context) =>
      alone(async () => {
        await context.stage.replaceRunner();
        return "";
      }),
  },
  "delete snapshots": {
    weight: 0.5,
    ends: true,
    act: (context) => onSnapshots(context, "DELETE FROM snapshot"),
  },
  "corrupt snapshots": {
    weight: 0.5,
    ends: true,
    act: (context) => onSnapshots(context, "UPDATE snapshot SET state = substr(state, 1, 100)"),
  },
  "drain host": {
    weight: 0.5,
    ends: true,
    act: async ({ stage, random }) => {
      const { name } = random.pick([...stage.hosts.values()]);
      stage.drainHost(name);
      return name;
    },
  },
  "kill host": {
    weight: 0.8,
    ends: true,
    isRough: true,
    act: async ({ stage, random }) => {
      const { name, starts } = random.pick([...stage.hosts.values()]);
      stage.killHost(name);
      return `${name}.${starts}`;
    },
  },
  "lose host": {
    weight: 0.4,
    ends: true,
    isRough: true,
    act: async (context) => {
      const { stage, random } = context;
      const { name, starts, process } = random.pick([...stage.hosts.values()]);
      stage.lostHosts.add(`${name}.${starts}`);
      process.kill("SIGSTOP");
      await sleep(stage.graceMs * (0.8 + random.below(100) / 100));
      process.kill("SIGCONT");
      return `${name}.${starts}`;
    },
  },
  "kill agent": {
    weight: 1,
    ends: true,
    isRough: true,
    act: async ({ stage, random }) => {
      const pid = random.pick(stage.agents());
      if (pid !== undefined) stage.killAgent(pid);
      return `${pid}`;
    },
  },
};

/** Injects random faults, several at a time, and keeps the schedule. */
export class Faults {
  readonly schedule: Happened[] = [];
  readonly #context: Context;
  readonly #kinds: [string, Kind][];
  readonly #running = new Set<Promise<void>>();

  /** `killFactor` makes faults more frequent that end a process. */
  constructor(context: Context, { isRough, killFactor }: { isRough: boolean; killFactor: number }) {
    this.#context = context;
    this.#kinds = Object.entries(KINDS)
      .filter(([, kind]) => isRough || !kind.isRough)
      .map(([name, kind]) => [name, kind.ends ? { ...kind, weight: kind.weight * killFactor } : kind]);
  }

  /** Injects this many faults, evenly over the time. */
  async run(count: number, durationMs: number): Promise<void> {
    const start = Date.now();
    for (let i = 0; i < count; i += 1) {
      this.#inject();
      await sleep(Math.max(0, start + ((i + 1) * durationMs) / count - Date.now()));
    }
    await Promise.all(this.#running);
  }

  #inject(): void {
    const [name, kind] = this.#choose();
    const happened: Happened = { at: Date.now(), fault: name };
    this.schedule.push(happened);
    const running = kind
      .act(this.#context)
      .then((detail) => {
        happened.fault = `${name} ${detail}, over after ${Date.now() - happened.at} ms`;
      })
      .catch((error: unknown) => {
        happened.fault = `${name} failed: ${error}`;
      })
      .finally(() => this.#running.delete(running));
    this.#running.add(running);
  }

  #choose(): [string, Kind] {
    const total = this.#kinds.reduce((sum, [, { weight }]) => sum + weight, 0);
    let at = (this.#context.random.below(1_000_000) / 1_000_000) * total;
    for (const entry of this.#kinds) {
      at -= entry[1].weight;
      if (at < 0) return entry;
    }
    return this.#kinds[0] as [string, Kind];
  }
}

async function onNetwork(
  { stage, random }: Context,
  act: (network: BadNetwork) => Promise<void>,
): Promise<string> {
  const [name, network] = random.pick([...stage.networks]);
  await act(network);
  return name;
}

function pause({ random }: Context): Promise<void> {
  return sleep(20 + random.below(CHURN_MS));
}

async function stopFor(context: Context, pid: number | undefined): Promise<string> {
  if (pid === undefined) return "none";
  signal(pid, "SIGSTOP");
  await pause(context);
  signal(pid, "SIGCONT");
  return `${pid}`;
}

function kill(pid: number | undefined): number | undefined {
  if (pid !== undefined) signal(pid, "SIGKILL");
  return pid;
}

let busy: Promise<unknown> = Promise.resolve();

/** Faults that need the gateway for themselves happen one after the other. */
function alone<T>(act: () => Promise<T>): Promise<T> {
  const turn = busy.then(act);
  busy = turn.catch(() => {});
  return turn;
}

/** Changes the snapshots of all sessions while no workerd runs: its parent is stopped and cannot start another. */
function onSnapshots({ stage }: Context, statement: string): Promise<string> {
  return alone(async () => {
    const gateway = stage.gatewayProcess();
    const workerd = stage.workerd();
    if (gateway === undefined || workerd === undefined) return "no gateway";
    signal(gateway, "SIGSTOP");
    try {
      signal(workerd, "SIGKILL");
      while (isRunning(workerd)) await sleep(5);
      // The runner may have replaced the gateway, or another fault may have woken it.
      if (stage.workerd() !== undefined) return "another workerd";
      const files = stage.sessionFiles();
      for (const file of files) changeSnapshots(file, statement);
      return `of ${files.length} sessions`;
    } finally {
      signal(gateway, "SIGCONT");
    }
  });
}

export function changeSnapshots(file: string, statement: string): void {
  const database = new DatabaseSync(file);
  try {
    database.exec(statement);
  } catch (error) {
    // A session that is not yet stored has no tables.
    if (!String(error).includes("no such table")) throw error;
  } finally {
    database.close();
  }
}

/** A killed process whose parent is stopped stays as a zombie, which has no memory map any more. */
function isRunning(pid: number): boolean {
  return existsSync(`/proc/${pid}/exe`);
}
