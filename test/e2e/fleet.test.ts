/** Three hosts on shared files, thirty sessions, and hosts that are killed, drained and started again under them. */
import { randomInt } from "node:crypto";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, expect, test } from "vitest";
import { type Random, randomFrom } from "../fixtures/random.ts";
import { Client, type LogEvent, loggedUpdates, type RpcError, readLog } from "./client.ts";
import {
  eventually,
  type Gateway,
  type HostProcess,
  startGateway,
  startHost,
  withWorkspace,
} from "./gateway.ts";
import { streamed, textOf, upTo } from "./updates.ts";

const SESSIONS = 30;
const CHUNKS = 40;
const CHAOS_MS = 15_000;
const NAMES = ["a", "b", "c"];
const LIMITS = {
  hostSilentMs: 5_000,
  hostCheckMs: 5_000,
  probeMs: 1_000,
  hostStatusRetryMs: 500,
  agentStartMs: 60_000,
};
const TIMING = { pingEveryMs: 1_000, pongWithinMs: 2_000, retryMinMs: 50, retryMaxMs: 500 };

let gateway: Gateway;
let files: string;
const hosts = new Map<string, HostProcess>();

beforeAll(async () => {
  files = mkdtempSync(join(tmpdir(), "acp-edge-fleet-"));
  gateway = await withWorkspace(
    await startGateway({ env: { ACP_EDGE_LIMITS: JSON.stringify(LIMITS) } }),
    "fleet",
  );
  const response = await gateway.api("/api/workspaces/fleet", {
    method: "PUT",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ sharedFiles: true, hostGraceMs: 1_500 }),
  });
  expect(response.status).toBe(200);
  for (const name of NAMES) run(name);
});
afterAll(async () => {
  for (const host of hosts.values()) host.kill("SIGKILL");
  await gateway?.[Symbol.asyncDispose]();
  rmSync(files, { recursive: true, force: true });
});

function run(name: string): void {
  const { hostToken: token, workspace } = gateway;
  const env = {
    ACP_EDGE_TIMING: JSON.stringify(TIMING),
    DEMO_AGENT_STATE: join(files, "agents"),
  };
  hosts.set(name, startHost(gateway, { name, workspace, token, root: files, args: ["--drain", "10"], env }));
}

/** The outcome of one prompt. */
type Outcome = { session: string; mark: string; ended: "completed" | "unknown"; numbers: number[] };

test("hosts come and go, and every turn has one known end", { timeout: 150_000 }, async () => {
  const seed = Number(process.env.FLEET_SEED ?? randomInt(1, 2 ** 31));
  console.log(`FLEET_SEED=${seed}`);
  const random = randomFrom(seed);
  await eventually(async () => (await connected()) === NAMES.length);

  const clients = await Promise.all(NAMES.map(() => Client.connect(gateway)));
  const sessions: { client: Client; session: string }[] = [];
  for (let i = 0; i < SESSIONS; i += 1) {
    const client = clients[i % clients.length]!;
    sessions.push({ client, session: await client.newSession() });
  }

  const outcomes: Outcome[] = [];
  let over = false;
  const work = sessions.map(async ({ client, session }, i) => {
    for (let turn = 0; ; turn += 1) {
      const last = over;
      const outcome = await promptOnce(client, session, `s${i}t${turn}`);
      outcomes.push(outcome);
      if (last && outcome.ended === "completed") return turn + 1;
    }
  });
  await chaos(random);
  over = true;
  const turns = await Promise.all(work);

  const traces = readFileSync(join(files, "trace.txt"), "utf8").split("\n").filter(Boolean);
  expect(new Set(traces).size, "a prompt ran twice").toBe(traces.length);
  for (const { mark, ended, numbers } of outcomes) {
    if (ended === "completed") expect(traces).toContain(mark);
    // A turn in doubt has shown its beginning without a gap.
    expect(numbers).toEqual(upTo(ended === "completed" ? CHUNKS : numbers.length));
  }
  const unknown = outcomes.filter(({ ended }) => ended === "unknown").length;
  console.log(`${outcomes.length} turns, ${unknown} of them in doubt`);
  expect(unknown, "the hosts should have gone in the middle of turns").toBeGreaterThan(0);

  for (const [i, { client, session }] of sessions.entries()) {
    const log = await readLog(gateway, session);
    expect(log.map(({ seq }) => seq)).toEqual(log.map((_, index) => index + 1));
    expect(log.filter(({ kind }) => kind === "turn.started")).toHaveLength(turns[i]!);
    expect(log.filter(isOver).map(turnOf).toSorted()).toEqual(
      log
        .filter(({ kind }) => kind === "turn.started")
        .map(turnOf)
        .toSorted(),
    );
    expect(textOf(client.updates(session))).toBe(textOf(loggedUpdates(log)));
    const view = (await (await gateway.api(`/api/sessions/${session}`)).json()) as Record<string, unknown>;
    expect(view).toMatchObject({ state: "active", turn: null, queue: [] });
  }
  for (const client of clients) await client.close();
});

/** Sends one prompt. The test fails unless the turn ends with a known outcome or one known to be in doubt. */
async function promptOnce(client: Client, session: string, mark: string): Promise<Outcome> {
  const start = client.wire.entries.length;
  try {
    const { stopReason, updates } = await client.prompt(
      session,
      `/trace trace.txt ${mark}\n/stream ${CHUNKS} 30 20`,
    );
    expect(stopReason).toBe("end_turn");
    return { session, mark, ended: "completed", numbers: streamed(updates) };
  } catch (error) {
    expect((error as RpcError).data, String(error)).toMatchObject({ outcome: "unknown" });
    return { session, mark, ended: "unknown", numbers: streamed(client.updates(session, start)) };
  }
}

/**
 * Takes down one host at a time, so that another is always there, for longer or shorter than the grace, each way at
 * least once.
 */
async function chaos(random: Random): Promise<void> {
  const until = Date.now() + CHAOS_MS;
  for (let round = 0; round < 2 || Date.now() < until; round += 1) {
    const name = random.pick(NAMES);
    const host = hosts.get(name)!;
    const kills = round < 2 ? round === 0 : random.chance(0.5);
    host.kill(kills ? "SIGKILL" : "SIGTERM");
    await host.exited;
    await sleep(random.below(3_000));
    run(name);
    await eventually(async () => (await connected()) === NAMES.length, 30_000);
    await sleep(random.below(1_000));
  }
}

async function connected(): Promise<number> {
  const view = (await (await gateway.api("/api/workspaces/fleet")).json()) as { hosts: { state: string }[] };
  return view.hosts.filter(({ state }) => state === "connected").length;
}

function isOver({ kind }: LogEvent): boolean {
  return kind.startsWith("turn.") && kind !== "turn.started";
}

function turnOf({ payload }: LogEvent): string {
  return payload.turnId as string;
}
