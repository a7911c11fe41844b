import { describe, expect, test } from "vitest";
import type { Json } from "../../fixtures/json.ts";
import { type Opened, openSession, prompt, texts } from "../fixtures.ts";
import { Client } from "../peers/client.ts";

describe("elicitation", () => {
  const create = (id: unknown, scope: Json) =>
    JSON.stringify({
      jsonrpc: "2.0",
      id,
      method: "elicitation/create",
      params: { ...scope, mode: "form", message: "?", requestedSchema: { type: "object", properties: {} } },
    });

  async function second({ workspace, sessionId }: Opened, capabilities?: object): Promise<Client> {
    const client = await Client.open(workspace, "", "acme", {}, capabilities);
    await client.request("session/resume", { sessionId, cwd: "/", mcpServers: [] });
    return client;
  }

  test("reaches every client of its session that can ask its user, and the first answer wins", async () => {
    const opened = await openSession();
    const { client, agent } = opened;
    const other = await second(opened);
    const [plain, withPages] = [await second(opened, {}), await second(opened, { elicitation: { url: {} } })];
    agent.items(create("e", { sessionId: "agent-session" }));
    const asked = await client.takeJson();
    // Neither the answer nor the error of a client that was not asked counts.
    plain.send(JSON.stringify({ jsonrpc: "2.0", id: asked.id, result: { action: "accept" } }));
    await plain.request("session/resume", { sessionId: opened.sessionId, cwd: "/", mcpServers: [] });
    expect(await other.takeJson()).toEqual(asked);
    client.send(JSON.stringify({ jsonrpc: "2.0", id: asked.id, result: { action: "decline" } }));
    expect(await agent.line()).toEqual({ jsonrpc: "2.0", id: "e", result: { action: "decline" } });
    expect(await other.takeJson()).toMatchObject({
      method: "$/cancel_request",
      params: { requestId: asked.id },
    });
    // A client that was not asked is told nothing, now or when it attaches.
    agent.update("after");
    for (const uninvolved of [plain, withPages])
      expect(texts([await uninvolved.takeJson()])).toEqual(["after"]);
  });

  test("in url mode reaches clients that can show pages, also when they attach later", async () => {
    const opened = await openSession();
    const { client, agent } = opened;
    const visit = { mode: "url", message: "?", elicitationId: "v", url: "https://login.test/" };
    const params = { sessionId: "agent-session", ...visit };
    agent.items(JSON.stringify({ jsonrpc: "2.0", id: "u", method: "elicitation/create", params }));
    const asked = await client.takeJson();
    expect(asked).toMatchObject({ params: { mode: "url", url: "https://login.test/" } });
    const withPages = await second(opened, { elicitation: { url: {} } });
    expect(await withPages.takeJson()).toEqual(asked);
    const withForms = await second(opened, { elicitation: { form: {} } });
    withPages.send(JSON.stringify({ jsonrpc: "2.0", id: asked.id, result: { action: "accept" } }));
    expect(await agent.line()).toEqual({ jsonrpc: "2.0", id: "u", result: { action: "accept" } });
    agent.items('{"jsonrpc":"2.0","method":"elicitation/complete","params":{"elicitationId":"v"}}');
    agent.update("after");
    expect(await withPages.takeJson()).toMatchObject({ method: "elicitation/complete" });
    expect(texts([await withForms.takeJson()])).toEqual(["after"]);
  });

  test("stays open when clients cannot answer", async () => {
    const opened = await openSession();
    const { client, agent, sessionId } = opened;
    const other = await second(opened);
    const unknown = (id: unknown) =>
      JSON.stringify({ jsonrpc: "2.0", id, error: { code: -32601, message: "Method not found" } });
    agent.items(create("e", { sessionId: "agent-session" }));
    const asked = await other.takeJson();
    client.send(unknown(asked.id));
    await client.request("session/resume", { sessionId, cwd: "/", mcpServers: [] });
    other.send(JSON.stringify({ jsonrpc: "2.0", id: asked.id, result: { action: "accept" } }));
    expect(await agent.line()).toMatchObject({ id: "e", result: { action: "accept" } });
    agent.items(create("f", { sessionId: "agent-session" }));
    const again = await other.takeJson();
    client.send(unknown(again.id));
    other.send(
      JSON.stringify({ jsonrpc: "2.0", id: again.id, error: { code: -32603, message: "no window" } }),
    );
    await other.request("session/resume", { sessionId, cwd: "/", mcpServers: [] });
    other.send(JSON.stringify({ jsonrpc: "2.0", id: again.id, result: { action: "decline" } }));
    expect(await agent.line()).toEqual({ jsonrpc: "2.0", id: "f", result: { action: "decline" } });
  });

  test("that nobody could answer is refused", async () => {
    const { agent } = await openSession();
    const params = { sessionId: "agent-session", mode: "_hologram", message: "?" };
    agent.items(JSON.stringify({ jsonrpc: "2.0", id: "h", method: "elicitation/create", params }));
    expect(await agent.line()).toMatchObject({ id: "h", error: { code: -32602 } });
  });

  test("about the request of a client that cannot ask its user is declined", async () => {
    const opened = await openSession();
    const { agent, sessionId } = opened;
    const plain = await second(opened, {});
    plain.call("_vendor/login", { sessionId });
    agent.items(create("e", { requestId: (await agent.line()).id }));
    expect(await agent.line()).toEqual({ jsonrpc: "2.0", id: "e", result: { action: "decline" } });
  });

  test("reaches the client whose request it belongs to, under that client's id", async () => {
    const opened = await openSession();
    const { client, agent, sessionId } = opened;
    const other = await second(opened);
    client.send(
      JSON.stringify({ jsonrpc: "2.0", id: "mine", method: "_vendor/login", params: { sessionId } }),
    );
    const request = await agent.line();
    agent.items(create("e", { requestId: request.id }));
    const asked = await client.takeJson();
    expect(asked).toMatchObject({ method: "elicitation/create", params: { requestId: "mine" } });
    // No other client sees or may answer the request.
    other.send(JSON.stringify({ jsonrpc: "2.0", id: asked.id, result: { action: "accept" } }));
    await other.request("session/resume", { sessionId, cwd: "/", mcpServers: [] });
    client.send(JSON.stringify({ jsonrpc: "2.0", id: asked.id, result: { action: "cancel" } }));
    expect(await agent.line()).toEqual({ jsonrpc: "2.0", id: "e", result: { action: "cancel" } });
    agent.update("after");
    expect(texts([await other.takeJson()])).toEqual(["after"]);
    agent.items(create("f", { requestId: 99_999 }));
    expect(await agent.line()).toMatchObject({ id: "f", error: { code: -32602 } });
  });

  test("is settled when the turn is cancelled", async () => {
    const { client, agent, sessionId } = await openSession();
    client.call("session/prompt", prompt(sessionId));
    await agent.line();
    agent.items(create("e", { sessionId: "agent-session" }));
    const asked = await client.takeJson();
    client.notify("session/cancel", { sessionId });
    expect(await agent.line()).toMatchObject({ method: "session/cancel" });
    expect(await agent.line()).toEqual({ jsonrpc: "2.0", id: "e", result: { action: "cancel" } });
    expect(await client.takeJson()).toMatchObject({
      method: "$/cancel_request",
      params: { requestId: asked.id },
    });
  });
});

describe("extensions", () => {
  test("pass both ways, as requests and as notifications", async () => {
    const { client, agent, sessionId } = await openSession();
    const id = client.call("_vendor/ask", { sessionId, n: 1 });
    const request = await agent.line();
    expect(request).toMatchObject({ method: "_vendor/ask", params: { sessionId: "agent-session", n: 1 } });
    agent.answer(request, { n: 2 });
    expect((await client.until(id)).response.result).toEqual({ n: 2 });
    client.notify("_vendor/tell", { sessionId, n: 3 });
    expect(await agent.line()).toMatchObject({ method: "_vendor/tell", params: { n: 3 } });

    agent.items('{"jsonrpc":"2.0","id":4,"method":"_agent/ask","params":{"n":4}}');
    const asked = await client.takeJson();
    expect(asked).toMatchObject({ method: "_agent/ask", params: { n: 4 } });
    const error = { code: -32601, message: "Method not found" };
    client.send(JSON.stringify({ jsonrpc: "2.0", id: asked.id, error }));
    expect(await agent.line()).toEqual({ jsonrpc: "2.0", id: 4, error });
    agent.items('{"jsonrpc":"2.0","method":"_agent/tell","params":{"n":5}}');
    expect(await client.takeJson()).toMatchObject({ method: "_agent/tell", params: { n: 5 } });
  });

  test("can be cancelled from both sides", async () => {
    const { client, agent, sessionId } = await openSession();
    const id = client.call("_vendor/slow", { sessionId });
    const request = await agent.line();
    client.notify("$/cancel_request", { requestId: id });
    expect(await agent.line()).toMatchObject({
      method: "$/cancel_request",
      params: { requestId: request.id },
    });
    agent.items('{"jsonrpc":"2.0","id":"s","method":"_agent/slow","params":{}}');
    const asked = await client.takeJson();
    agent.items('{"jsonrpc":"2.0","method":"$/cancel_request","params":{"requestId":"s"}}');
    expect(await client.takeJson()).toMatchObject({
      method: "$/cancel_request",
      params: { requestId: asked.id },
    });
    expect(await agent.line()).toMatchObject({ id: "s", error: { code: -32800 } });
  });
});
