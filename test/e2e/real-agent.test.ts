/** A published agent from the catalogue does a whole turn through the gateway; only its model is a stand-in. */
import { mkdtempSync, readFileSync, realpathSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { RequestPermissionRequest } from "@agentclientprotocol/sdk";
import { expect, onTestFinished, test } from "vitest";
import { Client, loggedUpdates, readLog } from "./client.ts";
import { eventually, startGateway } from "./gateway.ts";
import { ModelServer } from "./model-server.ts";
import { textOf } from "./updates.ts";

const AGENT = "qwen-code";
const MARK = "write the greeting";

function temporaryDirectory(): string {
  const directory = realpathSync(mkdtempSync(join(tmpdir(), "acp-edge-real-agent-")));
  onTestFinished(() => rmSync(directory, { recursive: true, force: true }));
  return directory;
}

test("Qwen Code asks for a permission, writes a file and ends its turn", { timeout: 180_000 }, async () => {
  const root = temporaryDirectory();
  const home = temporaryDirectory();
  const file = join(root, "greeting.txt");
  const key = `sk-stand-in-${crypto.randomUUID()}`;
  await using model = await ModelServer.start(MARK, [
    { tool: "write_file", arguments: { file_path: file, content: "hello from the model\n" } },
    { say: "The greeting is written." },
  ]);
  const agents = async () =>
    ((await (await gateway.api("/api/agents")).json()) as { agents: { available: boolean }[] }).agents;
  // The test ignores keys in the environment of this machine.
  const env = { HOME: home, OPENAI_API_KEY: "", DASHSCOPE_API_KEY: "" };
  await using gateway = await startGateway({
    root,
    args: ["--agents", `demo,${AGENT}`],
    env: { ...env, OPENAI_BASE_URL: model.url, OPENAI_MODEL: "stand-in" },
  });
  expect(await agents()).toEqual([
    expect.objectContaining({ id: "demo", default: true, available: true, reason: null }),
    expect.objectContaining({
      id: AGENT,
      available: false,
      reason: expect.stringMatching(/^needs OPENAI_API_KEY/),
    }),
  ]);
  await gateway.api("/api/workspaces/local/secrets/OPENAI_API_KEY", {
    method: "PUT",
    body: JSON.stringify({ value: key }),
  });
  await eventually(async () => (await agents())[1]?.available === true);

  await using client = await Client.connect(gateway, { agent: AGENT });
  const asked: RequestPermissionRequest[] = [];
  client.onPermission = (request) => {
    asked.push(request);
    const { optionId } = request.options.find(({ kind }) => kind === "allow_once")!;
    return { outcome: { outcome: "selected", optionId } };
  };
  // The agent was started to report its capabilities.
  const { message } = await client.wire.until(({ by }) => by === "them");
  expect(message.result).toMatchObject({ agentInfo: { name: "qwen-code" } });
  const session = await client.newSession();
  const { stopReason, updates } = await client.prompt(session, `Please ${MARK}.`);

  expect(stopReason).toBe("end_turn");
  expect(textOf(updates)).toContain("The greeting is written.");
  expect(asked).toHaveLength(1);
  expect(readFileSync(file, "utf8")).toBe("hello from the model\n");
  // The model got the key and the result of its tool call.
  expect(model.requests.map((request) => request.key)).toEqual([key, key]);
  expect(model.requests[1]?.messages.at(-1)).toMatchObject({ role: "tool" });

  const log = await readLog(gateway, session);
  const calls = loggedUpdates(log).filter((update) => update.sessionUpdate.startsWith("tool_call"));
  expect(calls.at(-1)).toMatchObject({ status: "completed" });
  const methods = log.map(({ payload }) => payload.message?.method);
  expect(methods).toContain("session/request_permission");
  expect(methods).toContain("fs/write_text_file");

  const exported = await (await gateway.api(`/api/sessions/${session}/export?format=acpx`)).text();
  expect(exported).toContain("The greeting is written.");
  for (const text of [JSON.stringify(log), exported, gateway.log()]) expect(text).not.toContain(key);
});
