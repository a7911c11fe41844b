/** Runs all rows with one agent over each transport, as tests of the file that calls it. */
import { mkdirSync, mkdtempSync, realpathSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { type Gateway, startGateway } from "../gateway.ts";
import { readTaps, tapped } from "../wires/agent-tap.ts";
import { audit, describeFaults, withoutPassedOn } from "../wires/frame-audit.ts";
import { TRANSPORTS } from "../wires/transports.ts";
import { type AgentUnderTest, Candidate, Skip } from "./candidate.ts";
import { OF_THE_AGENT, PENDING } from "./known-failures.ts";
import type { Row } from "./row.ts";
import { AUTHENTICATION_ROWS } from "./rows/authentication.ts";
import { PROTOCOL_ROWS } from "./rows/protocol.ts";
import { SESSION_ROWS } from "./rows/sessions.ts";
import { TURN_ROWS } from "./rows/turns.ts";

/** Later rows end sessions of earlier ones. */
export const ROWS: Row[] = [...PROTOCOL_ROWS, ...AUTHENTICATION_ROWS, ...TURN_ROWS, ...SESSION_ROWS];

export type Launch = {
  command: string[];
  /** Variables of the host; `home` is an empty directory. */
  env: (home: string) => Record<string, string>;
};

export function tckSuite(agent: AgentUnderTest, { command, env }: Launch): void {
  const directory = realpathSync(mkdtempSync(join(tmpdir(), "acp-edge-tck-")));
  const make = (name: string) => {
    const path = join(directory, name);
    mkdirSync(path);
    return path;
  };
  const taps = make("taps");
  const report = new Report();
  const candidates: Candidate[] = [];
  let gateway: Gateway;

  beforeAll(async () => {
    const root = make("root");
    writeFileSync(join(root, "README.md"), "A workspace.\n");
    const catalogue = join(directory, "catalogue.json");
    writeFileSync(
      catalogue,
      JSON.stringify([{ id: agent.id, name: agent.id, command: tapped(taps, command) }]),
    );
    gateway = await startGateway({
      root,
      args: ["--agents", agent.id, "--catalogue", catalogue, "--isolation", "none"],
      env: env(make("home")),
    });
  });

  afterAll(async () => {
    await gateway?.[Symbol.asyncDispose]();
    rmSync(directory, { recursive: true, force: true });
    report.print();
  });

  for (const [transport, connect] of Object.entries(TRANSPORTS)) {
    describe(`${agent.id} over ${transport}`, () => {
      let candidate: Candidate;
      beforeAll(() => {
        candidate = new Candidate(agent, gateway.root, connect(gateway, agent.id));
        candidates.push(candidate);
      });

      for (const row of ROWS) {
        test(`${row.id} ${row.requires}`, async (context) => {
          const skip = await report.run(row, `${row.id} ${agent.id} over ${transport}`, candidate);
          if (skip !== undefined) context.skip(skip);
        });
      }
    });
  }

  test(`no message violates the schema, between ${agent.id} and the gateway or the gateway and its clients`, async () => {
    await gateway.stop();
    const processes = readTaps(taps);
    const atAgent = processes.flatMap(audit);
    const ofAgent = atAgent.filter(({ by }) => by === "agent");
    if (ofAgent.length > 0)
      console.log(`Faults of ${agent.id} itself:\n${describeFaults(ofAgent).join("\n")}`);
    const atClients = candidates
      .flatMap(({ clients }) => clients)
      .flatMap(({ frames }) => audit(frames.entries));
    expect(processes.length).toBeGreaterThan(0);
    expect(describeFaults(atAgent.filter(({ by }) => by === "gateway"))).toEqual([]);
    expect(describeFaults(withoutPassedOn(atClients, ofAgent))).toEqual([]);
  });
}

/** The rows that did not simply pass, and why. */
class Report {
  readonly #skipped: string[] = [];
  readonly #observed: string[] = [];
  readonly #pending: string[] = [];
  readonly #ofTheAgent: string[] = [];

  /** Resolves to the reason if the row neither passes nor fails. */
  async run(row: Row, place: string, candidate: Candidate): Promise<string | undefined> {
    const find = (list: typeof PENDING) =>
      list.find(({ id, where = "" }) => id === row.id && place.includes(where));
    const [pending, ofTheAgent] = [find(PENDING), find(OF_THE_AGENT)];
    const known = pending ?? ofTheAgent;
    let observation: unknown;
    try {
      observation = await check(row, candidate);
    } catch (error) {
      const reason = error instanceof Error ? error.message : String(error);
      if (error instanceof Skip) {
        this.#skipped.push(`${place}: ${reason}`);
        return reason;
      }
      if (!known) throw error;
      const list = pending ? this.#pending : this.#ofTheAgent;
      list.push(`${place}: ${known.reason} (${reason.split("\n", 1)})`);
      return known.reason;
    }
    if (known) throw new Error(`${row.id} passes: take it out of the known failures`);
    if (typeof observation === "string") this.#observed.push(`${place}: ${observation}`);
    return undefined;
  }

  print(): void {
    const sections: [string, string[]][] = [
      ["Skipped, because the row does not apply", this.#skipped],
      ["Observed", this.#observed],
      ["Failed by the agent itself", this.#ofTheAgent],
      ["PENDING: FAILED BY THE GATEWAY", this.#pending],
    ];
    for (const [title, lines] of sections) {
      if (lines.length === 0) continue;
      console.log([`TCK · ${title}: ${lines.length}`, ...lines.map((line) => `  ${line}`)].join("\n"));
    }
  }
}

async function check(row: Row, candidate: Candidate): Promise<unknown> {
  if (row.capability !== undefined) {
    const capabilities = await candidate.agentCapabilities();
    if (!valueAt(capabilities, row.capability)) throw new Skip(`no ${row.capability}`);
  }
  return row.check(candidate);
}

function valueAt(value: unknown, path: string): unknown {
  return path
    .split(".")
    .reduce<unknown>((node, key) => (node as Record<string, unknown> | undefined)?.[key], value);
}
