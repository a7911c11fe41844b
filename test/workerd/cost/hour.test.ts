import { runInDurableObject } from "cloudflare:test";
import { env, exports } from "cloudflare:workers";
import { afterAll, beforeAll, expect, test, vi } from "vitest";
import { DEFAULT_LIMITS } from "../../../src/protocol/limits.ts";
import { MEASURED } from "../../cost/measured-counts.ts";
import { type Bill, NO_BILL, type StepCounts, type StepName, sumOf } from "../../cost/steps.ts";
import { openSession, prompt, sessionStub, workspaceName } from "../fixtures.ts";
import { type Agent, updateText } from "../peers/agent.ts";
import { Client } from "../peers/client.ts";
import { Host } from "../peers/host.ts";
import { token } from "../tokens.ts";
import { Meter } from "./meter.ts";
import { evictBusyObjects, passTime } from "./passing-time.ts";
import { streamedBatches } from "./streamed-batches.ts";

const HOUR = 60 * 60 * 1000;
/** Enough for every collected change to be written. */
const SETTLED_MS = 10_000;

/** A count may differ this much from the one in the document: each release moves some of them a little. */
const TOLERANCE = { share: 0.1, pieces: 3 };

const measured = new Map<StepName, StepCounts>();
const sizes = { opened: 0, afterTurn: 0 };
let meter: Meter;

beforeAll(async () => {
  // The platform's own alarms never come: the time of the objects is a day ahead.
  vi.useFakeTimers({ toFake: ["Date"] });
  vi.setSystemTime(Date.now() + 24 * HOUR);
  // The first session of a tenant also makes the tenant's tables.
  const { client, host } = await openSession();
  await passTime(SETTLED_MS);
  client.socket.close(1000);
  await host.leave(1000);
  await passTime(SETTLED_MS);
  meter = await Meter.install(env.TENANT_DO.getByName("acme"));
  await script();
}, 120_000);
afterAll(() => {
  vi.useRealTimers();
});

async function step(name: StepName, act: () => Promise<void>): Promise<void> {
  const before = meter.callsOf("AcpConnection", "deliver");
  const bills = await meter.measure(async () => {
    await act();
    await passTime(SETTLED_MS);
  });
  const deliveries = meter.callsOf("AcpConnection", "deliver") - before;
  const billed = [...bills].filter(([, { rows, calls, messages }]) => rows + calls + messages > 0);
  measured.set(name, { deliveries, bills: Object.fromEntries(billed.sort()) });
}

async function script(): Promise<void> {
  const workspace = workspaceName();
  let host!: Host;
  let client!: Client;
  let agent!: Agent;
  let sessionId!: string;
  await step("host", async () => {
    host = await Host.join(workspace);
  });
  const bearer = await token({ workspace });
  await step("connect", async () => {
    client = await connect(workspace, bearer);
  });
  await step("open", async () => {
    const opening = client.newSession();
    agent = await host.agent();
    await agent.openSession();
    sessionId = await opening;
  });
  sizes.opened = await databaseSize(sessionId);
  await step("turn", () => turn(client, agent, sessionId, { updates: 200, everyMs: 1000 / 30 }));
  sizes.afterTurn = await databaseSize(sessionId);
  await step("slowTurn", () =>
    turn(client, agent, sessionId, { updates: 40, everyMs: 15_000, isSleeping: true }),
  );
  await step("idleHour", async () => {
    for (let quarter = 1; quarter <= 4; quarter += 1) {
      host.tell({ t: "load", runs: 1, loadAverage: quarter, freeMemory: 1000 });
      await passTime(HOUR / 4);
    }
  });
  await step("end", async () => {
    await client.request("session/close", { sessionId });
    await agent.stopped();
    agent.items(JSON.stringify(["exit", { code: 0, signal: null, stderr: "" }]));
    await agent.durable();
    client.socket.close(1000);
    await client.closed;
  });
  // An isolate hears from the tenant once in ten minutes, for all subjects in it.
  await connect(workspace, bearer);
  await step("reconnect", async () => {
    await connect(workspace, bearer);
  });
}

async function connect(workspace: string, bearer: string): Promise<Client> {
  const headers = { Upgrade: "websocket", Authorization: `Bearer ${bearer}` };
  const { webSocket } = await exports.default.fetch(`https://edge.test/acp?workspace=${workspace}`, {
    headers,
  });
  const client = new Client(webSocket as WebSocket);
  await client.request("initialize", { protocolVersion: 1, clientCapabilities: {} });
  return client;
}

/** A turn in the messages that a host would send. The client gets each before the next is sent. */
async function turn(
  client: Client,
  agent: Agent,
  sessionId: string,
  { updates, everyMs, isSleeping = false }: { updates: number; everyMs: number; isSleeping?: boolean },
): Promise<void> {
  client.call("session/prompt", prompt(sessionId));
  const { id } = await agent.line();
  const answer = JSON.stringify({ jsonrpc: "2.0", id, result: { stopReason: "end_turn" } });
  const texts = Array.from({ length: updates }, (_, i) => updateText(`${i} `));
  for (const batch of streamedBatches(texts, everyMs, answer, DEFAULT_LIMITS.chunkWindowMs)) {
    if (isSleeping) {
      await passTime(everyMs);
      await evictBusyObjects();
    }
    agent.items(...batch);
    await agent.durable();
    for (let i = 0; i < batch.length; i += 1) await client.takeJson();
  }
}

const databaseSize = (sessionId: string) =>
  runInDurableObject(sessionStub(sessionId), (_, { storage }) => storage.sql.databaseSize);

test("200 updates at 30 a second cost at most 110 rows and 100 deliveries", () => {
  const { deliveries } = countsOf("turn");
  expect(totalOf("turn").rows).toBeLessThanOrEqual(110);
  expect(deliveries).toBeLessThanOrEqual(100);
});

test("an idle process costs at most 20 rows an hour", () => {
  expect(totalOf("idleHour").rows).toBeLessThanOrEqual(20);
});

test("a client that comes back with a known token costs its tenant nothing", () => {
  expect(countsOf("reconnect").bills).not.toHaveProperty("TenantState");
});

test("the counts are those that docs/cost.md calculates with", () => {
  const sessionBytes = {
    opened: sizes.opened,
    perUpdate: Math.round((sizes.afterTurn - sizes.opened) / 200),
  };
  const counts = { steps: Object.fromEntries(measured), sessionBytes };
  const hint = `write these counts into test/cost/measured-counts.ts and run \`npm run docs:cost\`:\n${JSON.stringify(counts)}`;
  for (const [name, { deliveries, bills }] of measured) {
    const known = MEASURED.steps[name];
    expect(isAbout(deliveries, known.deliveries), hint).toBe(true);
    for (const payee of new Set([...Object.keys(bills), ...Object.keys(known.bills)]))
      for (const piece of ["rows", "calls", "messages"] as const) {
        const [now, then] = [bills[payee] ?? NO_BILL, known.bills[payee] ?? NO_BILL];
        expect(isAbout(now[piece], then[piece]), `${name}: ${payee} ${piece}: ${hint}`).toBe(true);
      }
  }
  expect(isAbout(sessionBytes.opened, MEASURED.sessionBytes.opened), hint).toBe(true);
  expect(isAbout(sessionBytes.perUpdate, MEASURED.sessionBytes.perUpdate), hint).toBe(true);
});

function isAbout(count: number, known: number): boolean {
  return Math.abs(count - known) <= Math.max(TOLERANCE.pieces, TOLERANCE.share * known);
}

function countsOf(name: StepName): StepCounts {
  return measured.get(name) as StepCounts;
}

function totalOf(name: StepName): Bill {
  return sumOf(Object.values(countsOf(name).bills));
}
