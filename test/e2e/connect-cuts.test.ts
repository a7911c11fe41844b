import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { PassThrough, Readable, Writable } from "node:stream";
import { fileURLToPath } from "node:url";
import { client, ndJsonStream } from "@agentclientprotocol/sdk";
import { afterAll, beforeAll, expect, test } from "vitest";
import { BadNetwork } from "./bad-network.ts";
import { type Gateway, startGateway } from "./gateway.ts";

const CONNECT = fileURLToPath(new URL("../../src/cli/connect.ts", import.meta.url));

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

/** An editor that reads and writes the bridge's pipes, and what it read. */
function editor(url: string) {
  const child = spawn(process.execPath, [CONNECT, url, "--heartbeat", "0.5"], {
    stdio: "pipe",
    env: { ...process.env, ACP_EDGE_TOKEN: gateway.token },
  }) as ChildProcess & { stdin: Writable; stdout: Readable; stderr: Readable };
  let text = "";
  let stderr = "";
  const output = new PassThrough();
  child.stdout.on("data", (chunk: Buffer) => {
    text += chunk.toString("latin1");
    output.write(chunk);
  });
  child.stdout.on("end", () => output.end());
  child.stderr.on("data", (chunk: Buffer) => (stderr += chunk.toString()));
  const app = client({ name: "editor" })
    .onNotification("session/update", () => {})
    .onRequest("session/request_permission", ({ params }) => ({
      outcome: { outcome: "selected", optionId: params.options[0]?.optionId ?? "" },
    }));
  const { agent } = app.connect(
    ndJsonStream(
      Writable.toWeb(child.stdin) as WritableStream<Uint8Array>,
      Readable.toWeb(output) as ReadableStream<Uint8Array>,
    ),
  );
  return {
    agent,
    child,
    stderr: () => stderr,
    async end(): Promise<string> {
      child.stdin.end();
      await once(child, "close");
      return text;
    },
  };
}

const TURNS = [
  "/stream 2000 120",
  "/permission Do it",
  "/plan",
  "/stream 150 20 2",
  "/think",
  "/stream 40 15000",
];

/** The same turns each time; what the editor read, with what is different in each session made equal. */
async function conversation(url: string, rounds: number): Promise<{ lines: string[]; stderr: string }> {
  const { agent, end, stderr } = editor(url);
  await agent.request("initialize", { protocolVersion: 1, clientCapabilities: {} });
  const { sessionId } = await agent.request("session/new", { cwd: "/anywhere", mcpServers: [] });
  for (let round = 0; round < rounds; round += 1) {
    for (const turn of TURNS) {
      const answer = await agent.request("session/prompt", {
        sessionId,
        prompt: [{ type: "text", text: turn }],
      });
      expect(answer).toEqual({ stopReason: "end_turn" });
    }
  }
  const text = await end();
  const lines = text
    .split("\n")
    .map((line) => line.replaceAll(sessionId, "SESSION").replace(/SESSION:\d+/, "ASKED"));
  return { lines, stderr: stderr() };
}

test("an editor sees the frames of an uninterrupted run, wherever the connection is cut", async () => {
  const rounds = 2;
  const calm = await conversation(gateway.wsUrl, rounds);
  expect(calm.stderr).toBe("");

  let cuts = 0;
  const next = () => {
    cuts += 1;
    // Now and then nobody is told; now and then the way is longer.
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

function random(from: number, to: number): number {
  return from + Math.floor(Math.random() * (to - from));
}
