/** kill -9, of the gateway and of the host, in the middle of a turn. */
import { randomInt } from "node:crypto";
import { afterAll, beforeAll, expect, test } from "vitest";
import { Client, type LogEvent, loggedUpdates, readLog } from "./client.ts";
import { alive, eventually, type Gateway, startGateway } from "./gateway.ts";
import { streamed, textOf, upTo } from "./updates.ts";

const KILLS = 5;
/** This stream outlasts the kills and the restarts between them. */
const STREAM = { count: 2000, size: 200, delayMs: 4 };

let gateway: Gateway;
beforeAll(async () => {
  // In a process namespace the agent would have a number of its own there.
  gateway = await startGateway({ args: ["--isolation", "none"] });
});
afterAll(() => gateway?.[Symbol.asyncDispose]());

test("[I1] [I6] kill -9 of workerd in mid-stream, again and again, loses and repeats nothing", async () => {
  const { count, size, delayMs } = STREAM;
  const clients = [await Client.connect(gateway)];
  const session = await clients[0]!.newSession();
  const { pid } = await lifecycle(session);
  clients[0]!.prompt(session, `/stream ${count} ${size} ${delayMs}`).catch(() => {});

  for (let kill = 0; kill < KILLS; kill++) {
    const client = clients.at(-1)!;
    const next = streamed(client.updates(session)).length + randomInt(1, 100);
    if (next >= count) break;
    await client.hears(session, label(next));
    gateway.killWorkerd();
    await client.closed;
    clients.push(await reconnect(session));
  }
  expect(clients.length, "the stream should outlast most of the kills").toBeGreaterThan(3);
  const last = clients.at(-1)!;
  await last.hears(session, label(count - 1));
  const isOver = ({ kind }: LogEvent) => kind.startsWith("turn.") && kind !== "turn.started";
  await eventually(async () => (await readLog(gateway, session)).some(isOver));

  const log = await readLog(gateway, session);
  expect(log.map(({ seq }) => seq)).toEqual(log.map((_, index) => index + 1));
  expect(log.filter(isOver)).toMatchObject([{ kind: "turn.completed", payload: { stopReason: "end_turn" } }]);
  const logged = loggedUpdates(log);
  expect(streamed(logged)).toEqual(upTo(count));
  for (const client of clients) {
    // No client saw a frame that is not in the log, or a gap.
    const seen = textOf(client.updates(session));
    expect(seen).toBe(textOf(logged).slice(0, seen.length));
  }
  expect(streamed(last.updates(session))).toHaveLength(count);

  expect((await lifecycle(session)).pid).toBe(pid);
  expect(alive([pid])).toEqual([pid]);
  expect(log.filter(({ kind }) => kind === "queue.owner.started")).toHaveLength(1);
  const { updates } = await last.prompt(session, "/pid\n/history");
  expect(textOf(updates)).toBe(`pid ${pid}\nprompts: 2\n`);
  for (const client of clients) await client.close();
});

test("[I6] a stream that fills every buffer while workerd is down loses and repeats nothing", async () => {
  const count = 40_000;
  const first = await Client.connect(gateway);
  const session = await first.newSession();
  first.prompt(session, `/stream ${count} 300`).catch(() => {});
  await first.hears(session, label(randomInt(500, 5000)));
  gateway.killWorkerd();
  await first.closed;
  await using second = await reconnect(session);
  await second.hears(session, label(count - 1));
  expect(streamed(second.updates(session))).toEqual(upTo(count));
  const seen = streamed(first.updates(session));
  expect(seen).toEqual(upTo(seen.length));
  const log = await readLog(gateway, session);
  expect(streamed(loggedUpdates(log))).toEqual(upTo(count));
  expect(log.map(({ seq }) => seq)).toEqual(log.map((_, index) => index + 1));
});

test("a turn that waits for a permission survives kill -9 of workerd", async () => {
  const first = await Client.connect(gateway);
  const session = await first.newSession();
  first.prompt(session, "/permission\n/stream 20 40").catch(() => {});
  await first.receives(({ method }) => method === "session/request_permission");
  gateway.killWorkerd();
  await first.closed;

  await using second = await reconnect(session, (client) => {
    client.onPermission = () => ({ outcome: { outcome: "selected", optionId: "allow" } });
  });
  await second.hears(session, label(19));
  expect(textOf(second.updates(session))).toContain("Permission selected: allow\n");
});

test("kill -9 of the host in mid-turn fails the turn, and the next prompt works", async () => {
  await using client = await Client.connect(gateway);
  const session = await client.newSession();
  const { pid } = await lifecycle(session);
  const turn = client.prompt(session, "/slow 60");
  await client.hears(session, "tick 3 ");
  gateway.killHost();
  await expect(turn).rejects.toMatchObject({ code: -32603, data: { outcome: "unknown" } });
  const failed = (await readLog(gateway, session)).filter(({ kind }) => kind === "turn.failed");
  expect(failed).toMatchObject([{ payload: { error: { data: { outcome: "unknown" } } } }]);

  const { stopReason, updates } = await client.prompt(session, "/stream 10 40\n/pid");
  expect(stopReason).toBe("end_turn");
  expect(streamed(updates)).toEqual(upTo(10));
  expect(textOf(updates)).not.toContain(`pid ${pid}\n`);
  expect((await lifecycle(session)).pid).not.toBe(pid);
  const log = await readLog(gateway, session);
  expect(log.map(({ seq }) => seq)).toEqual(log.map((_, index) => index + 1));
  // No prompt runs twice.
  expect(textOf(loggedUpdates(log)).match(/tick 1 of/g)).toHaveLength(1);
});

test("kill -9 of the agent in mid-turn fails the turn, and the next prompt works", async () => {
  await using client = await Client.connect(gateway);
  const session = await client.newSession();
  const turn = client.prompt(session, "/slow 60");
  await client.hears(session, "tick 1 ");
  process.kill((await lifecycle(session)).pid, "SIGKILL");
  await expect(turn).rejects.toMatchObject({ code: -32603, message: expect.stringContaining("SIGKILL") });
  expect((await client.prompt(session, "again")).stopReason).toBe("end_turn");
});

/** Reconnects as the SDK asks of clients, with initialize and session/load, until the gateway is back. */
async function reconnect(session: string, prepare = (_: Client) => {}): Promise<Client> {
  let connected: Client | undefined;
  await eventually(async () => {
    const client = await Client.connect(gateway);
    prepare(client);
    await client.load(session);
    connected = client;
    return true;
  }, 30_000);
  return connected!;
}

async function lifecycle(session: string): Promise<{ pid: number }> {
  const response = await gateway.api(`/api/sessions/${session}`);
  return ((await response.json()) as { lifecycle: { pid: number } }).lifecycle;
}

function label(number: number): string {
  return `${String(number).padStart(6, "0")} `;
}
