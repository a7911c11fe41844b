/** A bridge whose laptop sleeps or whose gateway restarts. */
import { afterAll, beforeAll, expect, test } from "vitest";
import { readLog } from "./client.ts";
import { chunks, onTheRoad, openEditor } from "./editor.ts";
import { eventually, type Gateway, startGateway } from "./gateway.ts";
import { upTo } from "./updates.ts";

let gateway: Gateway;
beforeAll(async () => {
  gateway = await startGateway();
});
afterAll(() => gateway?.[Symbol.asyncDispose]());

const turnIsOver = async (sessionId: string) =>
  (await readLog(gateway, sessionId)).some(({ kind }) => kind === "turn.completed");

test.each([
  ["and its connection is still there", false],
  ["and its connection died meanwhile, unheard", true],
])("[I6] a laptop that sleeps in mid-turn gets the whole turn when it wakes up, %s", async (_, dies) => {
  const { way, editor, sessionId } = await onTheRoad(gateway);
  const count = 500;
  const answer = editor.prompt(sessionId, `/stream ${count} 30 8`);
  await editor.reads('"text":"000050 ');
  editor.child.kill("SIGSTOP");
  if (dies) way.freeze();
  // This pause is longer than a missed heartbeat takes to notice.
  await eventually(() => turnIsOver(sessionId), 30_000);
  expect(chunks(editor.stdout).length).toBeLessThan(count);
  editor.child.kill("SIGCONT");
  expect(await answer).toEqual({ stopReason: "end_turn" });
  expect(way.accepted).toBeGreaterThan(1);
  expect(chunks(await editor.end())).toEqual(upTo(count));
});

test("a turn continues after the gateway's process was killed", async () => {
  const editor = await openEditor(gateway.wsUrl, gateway.token);
  const sessionId = await editor.newSession();
  const count = 1500;
  const answer = editor.prompt(sessionId, `/stream ${count} 30 5`);
  for (const place of ["000100", "000600"]) {
    await editor.reads(`"text":"${place} `);
    gateway.killWorkerd();
  }
  expect(await answer).toEqual({ stopReason: "end_turn" });
  expect(chunks(await editor.end())).toEqual(upTo(count));
});

test("an editor learns the outcome of its turn after the whole system restarted", async () => {
  await using before = await startGateway();
  const editor = await openEditor(before.wsUrl, before.token);
  const sessionId = await editor.newSession();
  const answer = editor.prompt(sessionId, "/stream 100000 30 5").catch((error: unknown) => error);
  await editor.reads('"text":"000100 ');
  await before.stop();
  await using after = await startGateway({
    port: Number(new URL(before.url).port),
    state: before.state,
    root: before.root,
  });
  expect(await answer).toMatchObject({ code: -32603, data: { outcome: "unknown" } });
  // The editor has every frame of the log, and then the next turn.
  const seen = chunks(editor.stdout);
  expect(seen).toEqual(upTo(seen.length));
  expect(await editor.prompt(sessionId, "/stream 3 20")).toEqual({ stopReason: "end_turn" });
  expect(chunks(await editor.end())).toEqual([...seen, ...upTo(3)]);
  expect(after.url).toBe(before.url);
});
