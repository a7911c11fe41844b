import { describe, expect, test } from "vitest";
import { eventsText, openSession, workspaceName } from "../fixtures.ts";
import { Client } from "../peers/client.ts";
import { Host } from "../peers/host.ts";
import { TRANSPORTS } from "../peers/transports.ts";

describe("a request that names no session", () => {
  test("reaches, before there is a session, the process that later opens it, also a request of the vendor", async () => {
    const workspace = workspaceName();
    const host = await Host.join(workspace);
    const client = await Client.open(workspace);
    const status = client.call("auth/status", {});
    const vendor = client.call("_vendor/models", { a: 1 });
    const agent = await host.agent();
    const asked = [await agent.line(), await agent.line()];
    expect(asked).toMatchObject([{ method: "auth/status" }, { method: "_vendor/models", params: { a: 1 } }]);
    for (const request of asked) agent.answer(request, { of: request.method });
    expect((await client.until(status)).response.result).toEqual({ of: "auth/status" });
    expect((await client.until(vendor)).response.result).toEqual({ of: "_vendor/models" });
    const opening = client.call("session/new", { cwd: "/", mcpServers: [] });
    const request = await agent.line();
    expect(request.method).toBe("session/new");
    agent.answer(request, { sessionId: "agent-session" });
    expect((await client.until(opening)).response.result).toMatchObject({ sessionId: agent.sessionId });
  });

  test("reaches the agent of the newest session, with the keys of a provider in no log", async () => {
    const { workspace, client, agent, sessionId } = await openSession();
    const params = {
      ...{ providerId: "main", apiType: "openai", baseUrl: "https://user:hunter2@example.com" },
      headers: { Authorization: "Bearer hunter2" },
    };
    const setting = client.call("providers/set", params);
    const request = await agent.line();
    expect(request).toMatchObject({ method: "providers/set", params });
    agent.answer(request, {});
    expect((await client.until(setting)).response.result).toEqual({});
    const log = await eventsText(workspace, sessionId);
    expect(log).toContain("providers/set");
    expect(log).not.toContain("hunter2");
  });

  test.each(TRANSPORTS)("is answered over $name", async (transport) => {
    const workspace = workspaceName();
    const host = await Host.join(workspace);
    const client = await transport.open(workspace);
    const id = await client.call("providers/list", {});
    const agent = await host.agent();
    agent.answer(await agent.line(), { providers: [] });
    expect((await client.answerTo(id)).result).toEqual({ providers: [] });
  });

  test("starts nothing for an observer, and a notification starts nothing for anybody", async () => {
    const workspace = workspaceName();
    await Host.join(workspace);
    const observer = await Client.open(workspace, "&role=observer");
    for (const method of ["auth/status", "providers/list", "_vendor/x"])
      expect((await observer.request(method, {})).response.error).toMatchObject({ code: -32003 });
    const client = await Client.open(workspace);
    client.notify("_vendor/hello", {});
    const { response } = await client.request("session/list", {});
    expect(response.result).toEqual({ sessions: [] });
    const opened = await openSession();
    opened.client.notify("_vendor/hello", { a: 1 });
    expect(await opened.agent.line()).toMatchObject({ method: "_vendor/hello", params: { a: 1 } });
  });
});

describe("MCP over ACP", () => {
  test("is answered at once: no client is asked, and no client sees it", async () => {
    const { client, agent } = await openSession();
    const params = { serverId: "s", requestId: "r", method: "tools/list" };
    agent.items(
      JSON.stringify({ jsonrpc: "2.0", id: 5, method: "mcp/message", params }),
      JSON.stringify({ jsonrpc: "2.0", method: "mcp/message", params }),
    );
    expect(await agent.line()).toMatchObject({ id: 5, error: { code: -32601 } });
    agent.update("after");
    expect(JSON.stringify(await client.takeJson())).toContain("after");
  });
});
