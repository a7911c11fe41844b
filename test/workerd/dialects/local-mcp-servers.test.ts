import { describe, expect, test } from "vitest";
import * as localServers from "../../fixtures/dialects/local-mcp-servers.ts";
import type { Json } from "../../fixtures/json.ts";
import { workspaceName } from "../fixtures.ts";
import { Client } from "../peers/client.ts";

import { clientFrames, forSession, hostOf, json, openPrinted } from "./fixtures.ts";

describe("a protocol version that is a string", () => {
  test.each(["2", "1.0", "latest", ""])("%j is refused", async (protocolVersion) => {
    const client = await Client.raw(workspaceName());
    for (const more of [{}, { capabilities: {} }]) {
      const { response } = await client.request("initialize", { protocolVersion, ...more });
      expect(response.error).toMatchObject({ code: -32602 });
    }
  });
});

describe("a client with local MCP servers", () => {
  async function opened() {
    const workspace = workspaceName();
    const printed = json(localServers.initializeResult).result as Json;
    const host = await hostOf(workspace, ["opencode"], printed);
    const client = await Client.raw(workspace);
    const { sessionId: _, ...setup } = json(localServers.newSessionResult).result as Json;
    const session = await openPrinted(client, host, localServers.initialize, localServers.newSession, setup);
    return { workspace, client, ...session };
  }

  test("exchanges every message as its specification prints it", async () => {
    const { workspace, client, agent, initialized, request, response, sessionId } = await opened();
    const printed = (message: string) => json(forSession(message, sessionId));
    expect(initialized).toMatchObject(json(localServers.initializeResult));
    expect(request.params).toMatchObject({
      mcpServers: [{ name: "weather", command: "bun", args: ["x", "@h1deya/mcp-server-weather"], env: [] }],
    });
    expect(response).toEqual(printed(localServers.newSessionResult));

    client.send(forSession(localServers.prompt, sessionId));
    const prompt = await agent.line();
    expect(prompt.params?.prompt).toEqual((json(localServers.prompt).params as Json).prompt);
    for (const message of [localServers.messageChunk, localServers.toolCall, localServers.toolCallUpdate]) {
      agent.items(JSON.stringify(json(forSession(message, "agent-session"))));
      expect(await client.takeJson()).toEqual(printed(message));
    }
    agent.items(JSON.stringify(json(forSession(localServers.permissionRequest, "agent-session"))));
    const asked = await client.takeJson();
    expect(asked).toEqual({ ...printed(localServers.permissionRequest), id: asked.id });
    client.send(JSON.stringify({ ...json(localServers.permissionResponse), id: asked.id }));
    expect(await agent.line()).toEqual(json(localServers.permissionResponse));

    // Files belong to the workspace: its host answers, and gets the path as the agent wrote it.
    for (const message of [localServers.readFile, localServers.writeFile]) {
      agent.items(JSON.stringify(json(forSession(message, "agent-session"))));
      agent.items(
        JSON.stringify([
          "answer",
          JSON.stringify({ ...json(localServers.readFileResult), id: json(message).id }),
        ]),
      );
      expect(await agent.line()).toEqual({ ...json(localServers.readFileResult), id: json(message).id });
    }
    agent.answer(prompt, json(localServers.promptResponse).result);
    expect(await client.takeJson()).toEqual(printed(localServers.promptResponse));

    for (const [message, method] of [
      [localServers.setMode, "session/set_mode"],
      [localServers.setModel, "session/set_model"],
    ] as const) {
      client.send(forSession(message, sessionId));
      const line = await agent.line();
      expect(line).toEqual({ ...json(forSession(message, "agent-session")), id: line.id });
      expect(line.method).toBe(method);
      const { error } = json(localServers.error);
      agent.items(JSON.stringify({ jsonrpc: "2.0", id: line.id, error }));
      expect(await client.takeJson()).toEqual({ jsonrpc: "2.0", id: json(message).id, error });
    }
    expect((await clientFrames(workspace, sessionId))[0]).toMatchObject({
      params: { mcpServers: [{ command: "bun" }] },
    });

    const second = await Client.open(workspace);
    second.send(forSession(localServers.load, sessionId));
    expect((await second.until(3)).response.error).toBeUndefined();
  });

  test("cancels as its specification prints it", async () => {
    const { client, agent, sessionId } = await opened();
    client.send(forSession(localServers.prompt, sessionId));
    await agent.line();
    client.send(forSession(localServers.cancel, sessionId));
    expect(await agent.line()).toEqual(json(forSession(localServers.cancel, "agent-session")));
  });

  test("is refused a local server without a program", async () => {
    const client = await Client.open(workspaceName());
    const mcpServers = [{ type: "local", name: "x", command: [] }];
    expect((await client.request("session/new", { cwd: "/", mcpServers })).response.error).toMatchObject({
      code: -32602,
    });
  });
});

describe("a canonical client", () => {
  test("[I2] gets every byte the agent wrote, and the log has every byte the client wrote", async () => {
    const workspace = workspaceName();
    const host = await hostOf(workspace, ["one"]);
    const client = await Client.open(workspace);
    const newSession =
      '{ "jsonrpc":"2.0", "id":1.0,"method":"session/new","params":{"cwd":"/x","mcpServers":[ ],"mode":"m","workspaceUri":"no","big":12345678901234567890}}';
    client.send(newSession);
    const agent = await host.agent();
    agent.answer(await agent.line(), { sessionId: "agent-session" });
    const { sessionId } = (await client.takeJson()).result as { sessionId: string };
    const update = (id: string) =>
      `{"method":"session/update", "jsonrpc":"2.0","params":{"sessionId":"${id}","update":{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"a"},"n":1.0,"big":12345678901234567890}}}`;
    agent.items(update("agent-session"));
    expect(await client.take()).toBe(update(sessionId));
    // The forms of other specifications have no meaning here.
    const prompt = `{"jsonrpc":"2.0","id":9,"method":"session/prompt","params":{"sessionId":"${sessionId}","message":{"role":"user"}, "x":1.0}}`;
    client.send(prompt);
    expect((await agent.line()).params).toEqual({
      sessionId: "agent-session",
      message: { role: "user" },
      x: 1,
    });
    const { response } = await client.request("session/respond_to_permission", {
      requestId: "a",
      response: "b",
    });
    expect(response.error).toMatchObject({ code: -32602 });
  });
});
