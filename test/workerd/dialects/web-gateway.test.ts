import { describe, expect, test } from "vitest";
import * as webGateway from "../../fixtures/dialects/web-gateway.ts";
import type { Json } from "../../fixtures/json.ts";
import { workspaceName } from "../fixtures.ts";
import { Client } from "../peers/client.ts";

import {
  agentSocket,
  capabilities,
  clientFrames,
  forSession,
  fromAgent,
  hostOf,
  json,
  openPrinted,
  text,
} from "./fixtures.ts";

describe("a client of the web gateway", () => {
  async function opened() {
    const workspace = workspaceName();
    const agentInfo = { name: "Claude Code", version: "1.0.0" };
    const host = await hostOf(workspace, ["claude-code"], { agentInfo, ...capabilities });
    const client = await agentSocket(workspace);
    client.send(webGateway.selectAgent);
    const statuses = [await client.takeJson(), await client.takeJson()];
    const session = await openPrinted(client, host, webGateway.initialize, webGateway.newSession);
    return { workspace, host, client, statuses, ...session };
  }

  test("chooses an agent and exchanges every message as its specification prints it", async () => {
    const { workspace, client, agent, statuses, initialized, request, sessionId } = await opened();
    for (const status of statuses) expect(webGateway.agentStatus).toContain(`"${status.status}"`);
    expect(statuses).toEqual([
      { type: "agent_status", status: "starting", agentType: "claude-code" },
      { type: "agent_status", status: "ready", agentType: "claude-code" },
    ]);
    expect(initialized).toMatchObject(json(webGateway.initializeResult));
    expect(request).toMatchObject({ method: "session/new", params: { cwd: "/workspace", mcpServers: [] } });

    client.send(forSession(webGateway.prompt, sessionId));
    const prompt = await agent.line();
    expect(prompt).toMatchObject({
      method: "session/prompt",
      params: { sessionId: "agent-session", prompt: [text("Read the README and summarize it")] },
    });
    expect(prompt.params).not.toHaveProperty("message");

    const received = async (printed: string) =>
      expect(await client.takeJson()).toEqual(json(forSession(printed, sessionId)));
    fromAgent(agent, {
      sessionUpdate: "agent_message_chunk",
      content: text("Let me read the README file..."),
    });
    await received(webGateway.messageChunk);
    fromAgent(agent, {
      sessionUpdate: "agent_thought_chunk",
      content: text("I should look at the README.md file first..."),
    });
    await received(webGateway.thoughtChunk);
    const rawInput = { path: "/workspace/README.md" };
    fromAgent(agent, { sessionUpdate: "tool_call", toolCallId: "tc-001", title: "read_file", rawInput });
    await received(webGateway.toolCall);
    const output = text("# Simple Agent Manager\n\nA serverless platform...");
    fromAgent(agent, {
      sessionUpdate: "tool_call_update",
      toolCallId: "tc-001",
      status: "completed",
      content: [{ type: "content", content: output }],
    });
    await received(webGateway.toolCallUpdate);

    agent.answer(prompt, json(webGateway.promptResponse).result);
    await received(webGateway.promptResponse);

    client.send(forSession(webGateway.setMode, sessionId));
    const setMode = await agent.line();
    expect(setMode).toMatchObject({ method: "session/set_mode", params: { modeId: "code" } });
    agent.answer(setMode, {});
    expect(await client.takeJson()).toEqual({ jsonrpc: "2.0", id: 5, result: {} });

    // The log has canonical ACP, whatever dialect the client speaks.
    expect(await clientFrames(workspace, sessionId)).toMatchObject([
      { id: 2, method: "session/new", params: { cwd: "/workspace", mcpServers: [] } },
      { id: 3, method: "session/prompt", params: { sessionId, prompt: [{ type: "text" }] } },
      { id: 5, method: "session/set_mode", params: { sessionId, modeId: "code" } },
    ]);
  });

  test("cancels as its specification prints it", async () => {
    const { client, agent, sessionId } = await opened();
    client.send(forSession(webGateway.prompt, sessionId));
    const prompt = await agent.line();
    client.send(forSession(webGateway.cancel, sessionId));
    expect(await agent.line()).toEqual({
      ...json(webGateway.cancel),
      params: { sessionId: "agent-session" },
    });
    agent.answer(prompt, { stopReason: "cancelled" });
    expect((await client.takeJson()).result).toEqual({ stopReason: "cancelled" });
  });

  const printedRequest = json(webGateway.permissionRequest).params as Json;

  /** The agent requests a permission, and the client gets the request. */
  async function asked(kinds: string[]) {
    const session = await opened();
    const { client, agent, sessionId } = session;
    client.send(forSession(webGateway.prompt, sessionId));
    await agent.line();
    const { toolName, description, input } = printedRequest;
    const toolCall = { toolCallId: "t", name: toolName, title: description, rawInput: input };
    const options = kinds.map((kind) => ({ optionId: `id-of-${kind}`, kind, name: kind }));
    const params = { sessionId: "agent-session", toolCall, options };
    agent.items(JSON.stringify({ jsonrpc: "2.0", id: 100, method: "session/request_permission", params }));
    const request = await client.takeJson();
    const { requestId } = request.params as { requestId: string };
    const respond = async (response: unknown, about: unknown = requestId) =>
      (await client.request("session/respond_to_permission", { requestId: about, response })).response;
    return { ...session, request, requestId, respond };
  }

  test("gets a permission request and answers it as its specification prints it", async () => {
    const { client, agent, request, requestId } = await asked(["allow_always", "allow_once", "reject_once"]);
    const { requestId: _, ...printed } = printedRequest;
    expect(request).toMatchObject({ method: "session/request_permission", id: requestId, params: printed });
    expect(request.params).toHaveProperty("options");
    client.send(webGateway.respondToPermission.replace("perm-xyz789", requestId));
    expect((await client.until(4)).response).toEqual({ jsonrpc: "2.0", id: 4, result: {} });
    expect(await agent.line()).toEqual({
      jsonrpc: "2.0",
      id: 100,
      result: { outcome: { outcome: "selected", optionId: "id-of-allow_once" } },
    });
  });

  test("may answer a permission request by a response too", async () => {
    const { client, agent, requestId } = await asked(["allow_once"]);
    const result = { outcome: { outcome: "selected", optionId: "id-of-allow_once" } };
    client.send(JSON.stringify({ jsonrpc: "2.0", id: requestId, result }));
    expect(await agent.line()).toEqual({ jsonrpc: "2.0", id: 100, result });
  });

  test("cannot answer a request that is not open, or with an option that was not offered", async () => {
    const { respond, agent, sessionId } = await asked(["allow_always", "reject_once"]);
    expect((await respond("allow_once")).error).toMatchObject({ code: -32602 });
    expect((await respond("reject_always")).error).toMatchObject({ code: -32602 });
    expect((await respond("yes")).error).toMatchObject({ code: -32602 });
    expect((await respond("allow_once", 7)).error).toMatchObject({ code: -32602 });
    for (const about of ["perm-xyz789", `${sessionId}:1`, `${crypto.randomUUID()}:5`])
      expect((await respond("reject_once", about)).error).toMatchObject({ code: -32002 });
    expect(await respond("reject_once")).toMatchObject({ result: {} });
    expect(await agent.line()).toMatchObject({ result: { outcome: { optionId: "id-of-reject_once" } } });
    expect((await respond("reject_once")).error).toMatchObject({ code: -32002 });
  });

  test("cannot answer in a session that it has left, until it is back", async () => {
    const { client, respond, agent, sessionId } = await asked(["allow_once", "reject_once"]);
    await client.request("session/detach", { sessionId });
    expect((await respond("reject_once")).error).toMatchObject({ code: -32002 });
    await client.request("session/resume", { sessionId, cwd: "/", mcpServers: [] });
    expect(await respond("allow_once")).toMatchObject({ result: {} });
    expect(await agent.line()).toMatchObject({ result: { outcome: { optionId: "id-of-allow_once" } } });
  });

  test.each([
    ["session/prompt", { message: { role: "assistant", content: "a" } }],
    ["session/prompt", {}],
    ["session/new", { workspaceUri: "https://example.org" }],
  ])("may not send %s with %j, and the connection goes on", async (method, params) => {
    const { client, sessionId } = await opened();
    const { response } = await client.request(method, { sessionId, ...params });
    expect(response.error).toMatchObject({ code: -32602 });
    expect((await client.request("no/such", {})).response.error).toMatchObject({ code: -32601 });
  });

  test("speaks its dialect on /acp too", async () => {
    const workspace = workspaceName();
    const host = await hostOf(workspace, ["claude-code"], capabilities);
    const client = await Client.raw(workspace);
    const { agent, sessionId } = await openPrinted(
      client,
      host,
      webGateway.initialize,
      webGateway.newSession,
    );
    fromAgent(agent, { sessionUpdate: "agent_message_chunk", content: text("a") });
    expect((await client.takeJson()).params).toEqual({
      sessionId,
      update: { kind: "agent_message_chunk", delta: text("a") },
    });
  });
});
