import { describe, expect, test } from "vitest";
import * as container from "../../fixtures/dialects/container-data-model.ts";
import type { Json } from "../../fixtures/json.ts";
import { workspaceName } from "../fixtures.ts";
import { Client } from "../peers/client.ts";

import {
  clientFrames,
  forSession,
  fromAgent,
  hostOf,
  json,
  openPrinted,
  sendPrinted,
  text,
} from "./fixtures.ts";

describe("a client of the container data model", () => {
  async function opened() {
    const workspace = workspaceName();
    const agentInfo = { name: "Claude Code Container", version: "1.0.0" };
    const host = await hostOf(workspace, ["claude"], { agentInfo, agentCapabilities: {} });
    const client = await Client.raw(workspace);
    return {
      workspace,
      client,
      ...(await openPrinted(client, host, container.initialize, container.newSession)),
    };
  }

  test("exchanges every message as its specification prints it", async () => {
    const { workspace, client, agent, initialized, request, response, sessionId } = await opened();
    expect(initialized).toMatchObject(json(container.initializeResult));
    expect(request.params).toMatchObject({ mcpServers: [] });
    expect(response).toEqual({ jsonrpc: "2.0", id: 2, result: { sessionId } });

    client.send(forSession(container.prompt, sessionId));
    const prompt = await agent.line();
    expect((prompt.params as { prompt: Json[] }).prompt.map(({ type }) => type)).toEqual([
      "text",
      "image",
      "resource",
      "resource_link",
      "text",
      "resource_link",
      "resource_link",
    ]);
    fromAgent(agent, { sessionUpdate: "agent_thought_chunk", content: text("Let me see") });
    fromAgent(agent, { sessionUpdate: "agent_message_chunk", content: text("It says hello.") });
    agent.answer(prompt, { stopReason: "end_turn" });
    const { response: answer, before } = await client.until(3);
    expect(before).toEqual(
      [container.thinking, container.working, container.completed].map((printed) =>
        json(forSession(printed, sessionId)),
      ),
    );
    expect(answer).toEqual({ jsonrpc: "2.0", id: 3, result: { stopReason: "end_turn" } });
    expect((await clientFrames(workspace, sessionId))[0]).toMatchObject({
      method: "session/new",
      params: { cwd: "/path/to/repo", mcpServers: [] },
    });
  });

  test("gets an error as a status first, then as the error", async () => {
    const { client, agent, sessionId } = await opened();
    client.send(forSession(container.prompt, sessionId));
    const { id } = await agent.line();
    agent.items(JSON.stringify({ jsonrpc: "2.0", id, error: { code: -32603, message: "no luck" } }));
    const { response, before } = await client.until(3);
    expect(before).toMatchObject([
      { params: { sessionId, status: "error", content: [{ type: "text", content: "no luck" }] } },
    ]);
    expect(response.error).toEqual({ code: -32603, message: "no luck" });
  });

  describe("that watches another client's turn", () => {
    const ends = (messages: Json[]) =>
      messages.flatMap(({ params }) => {
        const { status } = (params ?? {}) as Json;
        return status === "completed" || status === "error" ? [status] : [];
      });

    async function watcher(workspace: string, sessionId: string): Promise<Client> {
      const client = await Client.raw(workspace);
      await sendPrinted(client, container.initialize);
      await client.request("session/resume", { sessionId });
      return client;
    }

    test("sees each turn completed or failed once", async () => {
      const { workspace, client, agent, sessionId } = await opened();
      const watchers = [await watcher(workspace, sessionId), await watcher(workspace, sessionId)];
      const canonical = await Client.open(workspace);
      await canonical.request("session/resume", { sessionId, cwd: "/", mcpServers: [] });
      const content = [{ type: "text", content: "hi" }];
      const turn = async (end: (prompt: Json) => void) => {
        const id = client.call("session/prompt", { sessionId, content });
        end(await agent.line());
        return ends((await client.until(id)).before);
      };
      expect(await turn((prompt) => agent.answer(prompt, { stopReason: "end_turn" }))).toEqual(["completed"]);
      const error = { code: -32603, message: "no luck" };
      const fail = ({ id }: Json) => agent.items(JSON.stringify({ jsonrpc: "2.0", id, error }));
      expect(await turn(fail)).toEqual(["error"]);
      // One client prompts now, and the others watch.
      const id = watchers[0]?.call("session/prompt", { sessionId, content });
      agent.answer(await agent.line(), { stopReason: "end_turn" });
      const seen = await watchers[0]?.until(id);
      expect(ends(seen?.before as Json[])).toEqual(["completed", "error", "completed"]);
      for (const one of [client, watchers[1] as Client]) {
        const { before } = await one.request("session/resume", { sessionId });
        expect(ends(before)).toEqual(one === client ? ["completed"] : ["completed", "error", "completed"]);
      }
      const resumed = await canonical.request("session/resume", { sessionId, cwd: "/", mcpServers: [] });
      expect(resumed.before.map(({ method }) => method)).toEqual(Array(3).fill("session/update"));
    });

    test("gets the end of a turn once although it sent the same prompt too", async () => {
      const { workspace, client, agent, sessionId } = await opened();
      const other = await watcher(workspace, sessionId);
      const params = {
        sessionId,
        content: [{ type: "text", content: "hi" }],
        _meta: { "acp-edge/idempotencyKey": "k" },
      };
      const ids = [client.call("session/prompt", params), other.call("session/prompt", params)];
      // Both prompts arrive before the first is answered.
      const prompt = await agent.line();
      await other.request("session/resume", { sessionId });
      agent.answer(prompt, { stopReason: "end_turn" });
      expect(ends((await client.until(ids[0])).before)).toEqual(["completed"]);
      expect(ends((await other.until(ids[1])).before)).toEqual(["completed"]);
    });
  });

  test.each([
    ["session/new", { workspaceUri: "/no/uri" }],
    ["session/new", { mode: "other" }],
    ["session/prompt", { content: [{ type: "video", content: "" }] }],
  ])("may not send %s with %j", async (method, params) => {
    const { client, sessionId } = await opened();
    expect((await client.request(method, { sessionId, ...params })).response.error).toMatchObject({
      code: -32602,
    });
  });
});
