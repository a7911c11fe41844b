import { describe, expect, test } from "vitest";
import type { Json } from "../fixtures/json.ts";
import { get, openSession, prompt } from "./fixtures.ts";
import { token } from "./tokens.ts";

const STDIO = '"mcpServers":[{"name":"x","command":"/bin/sh","args":[],"env":[]}]';

describe("[I13] a message that two JSON parsers read differently", () => {
  test.each([
    ["a method in another case", '"method":"_x/y","Method":"session/new"', ""],
    ["two methods", '"method":"session/new","method":"_x/y"', ""],
    ["two methods, one with escapes", '"method":"session/new","m\\u0065thod":"_x/y"', ""],
    ["two sessions", '"method":"_x/y"', '"sessionId":"elsewhere",'],
    ["a session in another case", '"method":"_x/y"', '"SessionId":"elsewhere",'],
    [
      "a member twice further inside",
      '"method":"_x/y"',
      '"a":[{"b":{"kind":"read","k\\u0069nd":"execute"}}],',
    ],
  ])("of a client never reaches the agent: %s", async (_, method, more) => {
    const { client, agent, sessionId } = await openSession();
    const params = `"params":{${more}"sessionId":"${sessionId}",${STDIO}}`;
    client.send(`{"jsonrpc":"2.0","id":"twofold",${method},${params}}`);
    const { response } = await client.until("twofold");
    expect(response.error).toMatchObject({ code: -32600 });
    client.call("session/prompt", prompt(sessionId));
    expect(await agent.line()).toMatchObject({ method: "session/prompt" });
  });

  test("of an agent never reaches a client: its request gets an error, and it counts as a violation", async () => {
    const { client, agent, sessionId, workspace } = await openSession();
    const foreign = crypto.randomUUID();
    const update =
      '"update":{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"forged"}}';
    agent.items(
      '{"jsonrpc":"2.0","id":5,"method":"fs/read_text_file","method":"fs/x","params":{"path":"/etc/x"}}',
      `{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"${foreign}","sessionId":"agent-session",${update}}}`,
    );
    expect(await agent.line()).toMatchObject({ id: 5, error: { code: -32600 } });
    agent.update("after");
    expect(JSON.stringify(await client.takeJson())).toContain("after");
    const view = await get(`/api/sessions/${sessionId}`, await token({ workspace }));
    expect(await view.json()).toMatchObject({ violations: { noMessage: 2 } });
  });

  test("of an agent asks nobody for a permission", async () => {
    const { agent } = await openSession();
    const toolCall = '"toolCall":{"toolCallId":"t","kind":"execute","kind":"read"}';
    const params = `{"sessionId":"agent-session",${toolCall},"options":[{"optionId":"a"}]}`;
    agent.items(`{"jsonrpc":"2.0","id":6,"method":"session/request_permission","params":${params}}`);
    expect(await agent.line()).toMatchObject({ id: 6, error: { code: -32600 } });
  });

  test("of an agent ends the request that it answers, with an error", async () => {
    const { client, agent, sessionId } = await openSession();
    const id = client.call("session/prompt", prompt(sessionId));
    const request: Json = await agent.line();
    agent.items(`{"jsonrpc":"2.0","id":${request.id},"result":{"stopReason":"end_turn"},"Result":{}}`);
    const { response } = await client.until(id);
    expect(response.error).toMatchObject({ code: -32600 });
  });
});
