import { describe, expect, test } from "vitest";
import { get, openSession, prompt } from "./fixtures.ts";
import { permissionRequest } from "./peers/agent.ts";
import { token } from "./tokens.ts";

const DEEP = `${'{"a":'.repeat(600)}1${"}".repeat(600)}`;

async function view(workspace: string, sessionId: string) {
  const response = await get(`/api/sessions/${sessionId}`, await token({ workspace }));
  return (await response.json()) as Record<string, unknown>;
}

describe("a message of the agent that the gateway cannot read", () => {
  test.each([
    ["too deep, with its id last", (id: unknown) => `{"jsonrpc":"2.0","result":${DEEP},"id":${id}}`],
    [
      "too many values, with its id last",
      (id: unknown) => `{"jsonrpc":"2.0","result":{"x":[${"1,".repeat(600_000)}1]},"id":${id}}`,
    ],
    [
      "too long, with its id last",
      (id: unknown) => `{"jsonrpc":"2.0","result":{"x":"${"x".repeat(5_000_000)}"},"id":${id}}`,
    ],
    ["neither result nor error", (id: unknown) => `{"jsonrpc":"2.0","id":${id}}`],
  ])("ends the turn with an error when it is the answer (%s)", async (_, text) => {
    const { client, agent, sessionId, workspace } = await openSession();
    const turn = client.call("session/prompt", prompt(sessionId, "go"));
    agent.items(text((await agent.line()).id));
    expect((await client.until(turn)).response.error).toMatchObject({ message: expect.any(String) });
    expect(await view(workspace, sessionId)).toMatchObject({ turn: null, lastError: expect.any(String) });
  });

  test("gets an error when it is a request", async () => {
    const { agent, sessionId, workspace } = await openSession();
    agent.items(`{"jsonrpc":"2.0","method":"_ask","params":${DEEP},"id":"q"}`);
    expect(await agent.line()).toMatchObject({ id: "q", error: { code: -32600 } });
    expect(await view(workspace, sessionId)).toMatchObject({ lastError: expect.any(String) });
  });
});

describe("a message of a client that the gateway cannot read", () => {
  test("gets an error under its own id when it is a request", async () => {
    const { client, sessionId } = await openSession();
    const params = `{"sessionId":"${sessionId}","prompt":[],"x":${DEEP}}`;
    client.send(`{"jsonrpc":"2.0","method":"session/prompt","params":${params},"id":"last"}`);
    expect(await client.takeJson()).toMatchObject({ id: "last", error: { code: -32600 } });
    client.send(`{"jsonrpc":"2.0","id":"first","method":"session/prompt","params":${params}}`);
    expect(await client.takeJson()).toMatchObject({ id: "first", error: { code: -32600 } });
  });

  test("is an error for the agent when it is an answer", async () => {
    const { client, agent } = await openSession();
    agent.items(permissionRequest(5));
    const { id } = await client.takeJson();
    client.send(`{"jsonrpc":"2.0","result":${DEEP},"id":${JSON.stringify(id)}}`);
    expect(await agent.line()).toMatchObject({ id: 5, error: { code: -32600 } });
  });
});
