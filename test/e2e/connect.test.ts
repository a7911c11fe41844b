import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { Readable, Writable } from "node:stream";
import { fileURLToPath } from "node:url";
import { client, ndJsonStream } from "@agentclientprotocol/sdk";
import { afterAll, beforeAll, expect, test } from "vitest";
import { type Gateway, startGateway } from "./gateway.ts";

const COMMAND = fileURLToPath(new URL("../../src/cli/command/main.ts", import.meta.url));

let gateway: Gateway;
beforeAll(async () => {
  gateway = await startGateway();
});
afterAll(() => gateway.stop());

function bridge(
  args: string[],
  env: Record<string, string> = {},
): ChildProcess & { stdin: Writable; stdout: Readable; stderr: Readable } {
  const child = spawn(process.execPath, [COMMAND, "connect", ...args], {
    stdio: "pipe",
    env: { ...process.env, ACP_EDGE_TOKEN: "", ...env },
  });
  return child as ReturnType<typeof bridge>;
}

async function ending(
  child: ReturnType<typeof bridge>,
): Promise<{ code: number | null; stderr: string; stdout: string }> {
  const texts = { stderr: "", stdout: "" };
  child.stderr.on("data", (data: Buffer) => (texts.stderr += data.toString()));
  child.stdout.on("data", (data: Buffer) => (texts.stdout += data.toString()));
  const [code] = (await once(child, "close")) as [number | null];
  return { code, ...texts };
}

test("an editor works with a remote agent as with a local command", async () => {
  const child = bridge([gateway.wsUrl], { ACP_EDGE_TOKEN: gateway.token });
  let text = "";
  const editor = client({ name: "editor" }).onNotification("session/update", ({ params }) => {
    const { update } = params;
    if (update.sessionUpdate === "agent_message_chunk" && update.content.type === "text")
      text += update.content.text;
  });
  const { agent } = editor.connect(
    ndJsonStream(
      Writable.toWeb(child.stdin) as WritableStream<Uint8Array>,
      Readable.toWeb(child.stdout) as ReadableStream<Uint8Array>,
    ),
  );
  await agent.request("initialize", { protocolVersion: 1, clientCapabilities: {} });
  const { sessionId } = await agent.request("session/new", { cwd: "/anywhere", mcpServers: [] });
  const prompt = (line: string) =>
    agent.request("session/prompt", { sessionId, prompt: [{ type: "text", text: line }] });
  expect(await prompt("/stream 5000 200")).toEqual({ stopReason: "end_turn" });
  expect(text).toHaveLength(5000 * 200);
  // A prompt of several megabytes goes the other way.
  text = "";
  await prompt(`/history\n${"x".repeat(3_000_000)}`);
  expect(text).toContain("prompts: 2");
  const ended = ending(child);
  child.stdin.end();
  expect(await ended).toMatchObject({ code: 0, stderr: "" });
});

test.each([
  ["a wrong token", () => [gateway.wsUrl, "--token", "wrong"], 3, "token"],
  [
    "an unreachable gateway",
    () => ["ws://127.0.0.1:1/acp", "--token", "x", "--wait", "0"],
    4,
    "cannot be reached",
  ],
  ["no token", () => [gateway.wsUrl], 3, "no token is configured"],
  ["an unknown option", () => [gateway.wsUrl, "--nonsense"], 2, "--nonsense"],
])(
  "connect with %s ends with a message on stderr, nothing on stdout, and an exit code",
  async (_, args, code, words) => {
    expect(await ending(bridge(args()))).toEqual({
      code,
      stdout: "",
      stderr: expect.stringContaining(words),
    });
  },
);

test("a log that cannot be written does not disturb the editor", async () => {
  const child = bridge([gateway.wsUrl, "--log", "/dev/full", "--wait", "0"], {
    ACP_EDGE_TOKEN: gateway.token,
  });
  const ended = ending(child);
  child.stdin.write("not json, which is worth a line in the log\n");
  child.stdin.write("\xff\n");
  child.stdin.write('{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":1}}\n');
  child.stdin.end();
  const { code, stdout } = await ended;
  expect(code).toBe(0);
  expect(stdout).toContain('"id":1,"result"');
});

test.each([
  ["SIGINT", 130],
  ["SIGTERM", 0],
] as const)("%s ends connect with its own exit code", async (signal, code) => {
  const child = bridge([gateway.wsUrl], { ACP_EDGE_TOKEN: gateway.token });
  const ended = ending(child);
  const answered = once(child.stdout, "data");
  child.stdin.write('{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":1}}\n');
  await answered;
  child.kill(signal);
  expect(await ended).toMatchObject({ code, stderr: "" });
});
