/** Everything a client gets from the gateway is valid by the schema of the SDK. */
import { afterAll, beforeAll, expect, test } from "vitest";
import { faults } from "../fixtures/schema.ts";
import { type Message, parse, RawClient } from "./client.ts";
import { type Gateway, startGateway } from "./gateway.ts";

let gateway: Gateway;
beforeAll(async () => {
  gateway = await startGateway();
});
afterAll(() => gateway?.[Symbol.asyncDispose]());

/** A client whose answers are checked as they arrive. */
async function ask(client: RawClient, method: string, params: object): Promise<Message> {
  const answer = await client.request(method, params);
  expect(faults(answer, method), `${method}: ${JSON.stringify(answer)}`).toEqual([]);
  return answer;
}

function checkCalls(client: RawClient): Set<string> {
  const seen = new Set<string>();
  for (const message of client.texts.entries.map(parse)) {
    if (message.method === undefined) continue;
    expect(faults(message), JSON.stringify(message)).toEqual([]);
    seen.add(message.params?.update?.sessionUpdate ?? message.method);
  }
  return seen;
}

const prompt = (sessionId: string, text: string) => ({ sessionId, prompt: [{ type: "text", text }] });

test("every message of a session's life, seen by two clients, is valid by the schema", async () => {
  await using first = await RawClient.connect(gateway);
  await using second = await RawClient.connect(gateway);
  for (const client of [first, second])
    await ask(client, "initialize", { protocolVersion: 1, clientCapabilities: {} });
  const cwd = gateway.root;
  const { result } = await ask(first, "session/new", { cwd, mcpServers: [] });
  const { sessionId } = result as { sessionId: string };
  const attach = { sessionId, cwd, mcpServers: [] };
  await ask(second, "session/resume", attach);

  await ask(first, "session/prompt", prompt(sessionId, "/think\n/tool\n/plan\n/usage\n/stream 3 10"));
  first.request("session/prompt", prompt(sessionId, "/permission")).catch(() => {});
  for (const client of [first, second])
    await client.texts.until((text) => parse(text).method === "session/request_permission");
  const asked = parse(first.texts.entries.find((text) => text.includes("request_permission")) as string);
  const from = second.texts.entries.length;
  first.send(
    JSON.stringify({
      jsonrpc: "2.0",
      id: asked.id,
      result: { outcome: { outcome: "selected", optionId: "allow" } },
    }),
  );
  await second.texts.until((text) => parse(text).method === "$/cancel_request", from - 1);

  await ask(first, "session/set_mode", { sessionId, modeId: "code" });
  // The agent loses its session, and the gateway reports that.
  expect((await ask(first, "session/prompt", prompt(sessionId, "/crash"))).error).toBeDefined();
  await ask(first, "session/prompt", prompt(sessionId, "again"));
  await second.texts.until((text) => text.includes("session_info_update"));

  await ask(second, "session/load", attach);
  await ask(second, "session/list", {});
  await ask(second, "session/list", { cwd });
  await ask(second, "session/close", { sessionId, _meta: { "acp-edge/closeMeans": "end" } });
  expect((await ask(first, "session/prompt", prompt(sessionId, "closed"))).error).toBeDefined();
  await ask(first, "session/delete", { sessionId });

  expect([...checkCalls(second)]).toEqual(
    expect.arrayContaining([
      "user_message_chunk",
      "agent_message_chunk",
      "tool_call",
      "session_info_update",
      "session/request_permission",
      "$/cancel_request",
    ]),
  );
  checkCalls(first);
});

test("every error is valid by the schema", async () => {
  await using client = await RawClient.connect(gateway);
  expect((await ask(client, "initialize", { protocolVersion: "x" })).error).toBeDefined();
  await ask(client, "initialize", { protocolVersion: 1 });
  const refused: [string, object][] = [
    ["initialize", { protocolVersion: 1 }],
    ["session/new", {}],
    ["session/prompt", {}],
    ["session/prompt", prompt("nobody", "a")],
    ["session/load", { sessionId: crypto.randomUUID(), cwd: "/", mcpServers: [] }],
    ["session/list", { cursor: "no cursor" }],
    ["no/such", {}],
  ];
  for (const [method, params] of refused) expect((await ask(client, method, params)).error).toBeDefined();
  for (const text of ["{", "[]", "{}", "7"]) {
    const from = client.texts.entries.length;
    client.send(text);
    const answer = parse(await client.texts.until(() => true, from));
    expect(faults(answer), text).toEqual([]);
    expect(answer.error).toBeDefined();
  }
});
