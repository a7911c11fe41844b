import { once } from "node:events";
import { readFileSync } from "node:fs";
import { createInterface } from "node:readline";
import { setTimeout as sleep } from "node:timers/promises";
import type { RequestPermissionResponse } from "@agentclientprotocol/sdk";
import { afterAll, beforeAll, expect, test } from "vitest";
import { BadNetwork } from "./bad-network.ts";
import { readLog } from "./client.ts";
import { chunks, onTheRoad, openEditor, startBridge } from "./editor.ts";
import { eventually, type Gateway, startGateway } from "./gateway.ts";
import { upTo } from "./updates.ts";

let gateway: Gateway;
let network: BadNetwork;
beforeAll(async () => {
  gateway = await startGateway();
  network = await BadNetwork.to(gateway.url);
});
afterAll(async () => {
  await network[Symbol.asyncDispose]();
  await gateway.stop();
});

const TURNS = [
  "/stream 2000 120",
  "/permission Do it",
  "/plan",
  "/stream 150 20 2",
  "/think",
  "/stream 40 15000",
];

/** Runs fixed turns; returns the frames the editor read, with the ids of the session made equal. */
async function conversation(url: string, rounds: number): Promise<{ lines: string[]; stderr: string }> {
  // Hundreds of cuts, each of which would cost a quarter of a second.
  const env = { ACP_EDGE_TIMING: '{"localSpreadMs":20,"retryMaxMs":500}' };
  const editor = await openEditor(url, gateway.token, { env });
  const sessionId = await editor.newSession();
  for (let round = 0; round < rounds; round += 1) {
    for (const turn of TURNS)
      expect(await editor.prompt(sessionId, turn)).toEqual({ stopReason: "end_turn" });
  }
  const lines = (await editor.end())
    .split("\n")
    .map((line) => line.replaceAll(sessionId, "SESSION").replace(/SESSION:\d+/, "ASKED"));
  return { lines, stderr: editor.stderr };
}

test("[I6] an editor sees the frames of an uninterrupted run, wherever the connection is cut", async () => {
  const rounds = 2;
  const calm = await conversation(gateway.wsUrl, rounds);
  expect(calm.stderr).toBe("");

  let cuts = 0;
  const next = () => {
    cuts += 1;
    // Some cuts are silent, and some are followed by a delay.
    network.delay(cuts % 7 === 0 ? 3 : 0);
    if (cuts % 50 === 0) network.freeze();
    else network.cut();
    network.after(random(1, 40_000), next);
  };
  network.after(random(1, 2_000), next);
  const rough = await conversation(network.url(gateway.wsUrl), rounds);
  network.after(Number.POSITIVE_INFINITY, () => {});
  expect(cuts).toBeGreaterThanOrEqual(200);
  expect(rough.lines).toEqual(calm.lines);
}, 180_000);

test("prompts typed without a network are sent afterwards, in order", async () => {
  const { way, editor, sessionId } = await onTheRoad(gateway);
  way.refuse(true);
  way.cut();
  const answers = [editor.prompt(sessionId, "/stream 3 20"), editor.prompt(sessionId, "/stream 2 20")];
  await eventually(() => way.accepted > 2);
  way.refuse(false);
  expect(await Promise.all(answers)).toEqual([{ stopReason: "end_turn" }, { stopReason: "end_turn" }]);
  expect(chunks(await editor.end())).toEqual([0, 1, 2, 0, 1]);
});

test("the sessions of one editor each continue in order, whatever the others do", async () => {
  const { way, editor, sessionId: first } = await onTheRoad(gateway);
  const sessions = [first, await editor.newSession(), await editor.newSession()];
  let cuts = 0;
  const next = () => {
    cuts += 1;
    way.cut();
    way.after(random(1, 60_000), next);
  };
  way.after(random(1, 20_000), next);
  const turns = sessions.flatMap((sessionId) => [
    editor.prompt(sessionId, "/stream 800 120 1"),
    editor.prompt(sessionId, "/permission Do it"),
    editor.prompt(sessionId, "/stream 100 1500"),
  ]);
  for (const turn of turns) expect(await turn).toEqual({ stopReason: "end_turn" });
  way.after(Number.POSITIVE_INFINITY, () => {});
  expect(cuts).toBeGreaterThan(10);
  const lines = (await editor.end()).split("\n");
  for (const sessionId of sessions) {
    const seen = lines.filter((line) => line.includes(`"sessionId":"${sessionId}"`));
    expect(chunks(seen.join("\n"))).toEqual([...upTo(800), ...upTo(100)]);
    expect(seen.filter((line) => line.includes("session/request_permission"))).toHaveLength(1);
    expect(await answersTo(sessionId)).toHaveLength(1);
  }
}, 120_000);

test("a permission request answered without a network is answered afterwards, once", async () => {
  const asked = Promise.withResolvers<void>();
  const decided = Promise.withResolvers<RequestPermissionResponse>();
  const { way, editor, sessionId } = await onTheRoad(gateway, {
    onPermission: () => {
      asked.resolve();
      return decided.promise;
    },
  });
  const turn = editor.prompt(sessionId, "/permission Do it");
  await asked.promise;
  way.refuse(true);
  way.cut();
  decided.resolve({ outcome: { outcome: "selected", optionId: "reject" } });
  await eventually(() => way.accepted > 3);
  way.refuse(false);
  expect(await turn).toEqual({ stopReason: "end_turn" });
  expect(await editor.end()).toContain("Permission selected: reject");
  expect(await answersTo(sessionId)).toEqual([{ outcome: "selected", optionId: "reject" }]);
});

/** The answers to the agent in the log. */
async function answersTo(sessionId: string): Promise<unknown[]> {
  const log = await readLog(gateway, sessionId);
  return log.flatMap(({ payload: { message } }) => {
    const { outcome } = (message?.result ?? {}) as { outcome?: unknown };
    return outcome ?? [];
  });
}

test("a message that takes longer than a heartbeat passes a slow network in one go", async () => {
  const { way, editor, sessionId } = await onTheRoad(gateway);
  way.throttle(1_000_000);
  const prompt = editor.prompt(sessionId, `/echo ${"x".repeat(3_000_000)}`);
  expect(await prompt).toEqual({ stopReason: "end_turn" });
  expect(way.accepted).toBe(1);
  expect((await editor.end()).length).toBeGreaterThan(3_000_000);
});

test("an editor that quits without a network does not wait long for the bridge", async () => {
  const { way, editor } = await onTheRoad(gateway);
  way.freeze();
  way.refuse(true);
  // By default a socket waits half a minute for the close handshake.
  await editor.end();
}, 20_000);

test("a turn continues after the gateway has forgotten the connection", async () => {
  await using forgetful = await startGateway({ env: { ACP_EDGE_LIMITS: '{"resumeMs": 300}' } });
  const { way, editor, sessionId } = await onTheRoad(forgetful);
  const answer = editor.prompt(sessionId, "/stream 600 30 5");
  way.after(20_000, () => {
    way.refuse(true);
    way.cut();
  });
  await eventually(async () => {
    const session = (await (await forgetful.api(`/api/sessions/${sessionId}`)).json()) as {
      clients: unknown[];
    };
    return session.clients.length === 0;
  });
  way.refuse(false);
  expect(await answer).toEqual({ stopReason: "end_turn" });
  expect(await editor.prompt(sessionId, "/stream 1 20")).toEqual({ stopReason: "end_turn" });
  expect(editor.stderr).toContain("forgotten");
  expect(chunks(await editor.end())).toEqual([...upTo(600), 0]);
});

test("a permanent failure reaches the editor as errors", async () => {
  await using other = await startGateway();
  const { way, editor, sessionId } = await onTheRoad(gateway);
  const closed = once(editor.child, "close");
  const answer = editor.prompt(sessionId, "/slow 60").catch((error: unknown) => error);
  // The gateway it reconnects to does not accept its token.
  way.leadTo(other.url);
  way.cut();
  expect(await answer).toMatchObject({ code: -32603, message: expect.stringContaining("token") });
  expect(await closed).toEqual([3, null]);
  expect(editor.stderr).toContain("valid token is required");
});

test("[I3] 50 MB reach an editor that reads slowly, and little of it is ever in memory", async () => {
  const child = startBridge(gateway.wsUrl, gateway.token);
  const lines = createInterface({ input: child.stdout });
  const say = (id: number, method: string, params: object) =>
    child.stdin.write(`${JSON.stringify({ jsonrpc: "2.0", id, method, params })}\n`);
  say(0, "initialize", { protocolVersion: 1, clientCapabilities: {} });
  say(1, "session/new", { cwd: "/", mcpServers: [] });
  let seen = 0;
  let peak = 0;
  for await (const line of lines) {
    const { id, result } = line.length < 10_000 ? JSON.parse(line) : {};
    if (id === 1) {
      const text = "/stream 2500 20000";
      say(2, "session/prompt", { sessionId: result.sessionId, prompt: [{ type: "text", text }] });
    }
    if (id === 2) break;
    if (line.length < 10_000) continue;
    seen += 1;
    // The reader pauses now and then.
    if (seen % 250 === 0) await sleep(200);
    peak = Math.max(peak, residentMegabytes(child.pid as number));
  }
  child.stdin.end();
  expect(seen).toBe(2500);
  expect(peak).toBeLessThan(250);
}, 120_000);

function residentMegabytes(pid: number): number {
  const [, kilobytes] = /VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${pid}/status`, "utf8")) ?? [];
  return Number(kilobytes) / 1024;
}

function random(from: number, to: number): number {
  return from + Math.floor(Math.random() * (to - from));
}
