import { env } from "cloudflare:workers";
import { describe, expect, test, vi } from "vitest";
import type { Json } from "../../fixtures/json.ts";
import { events, openSession, prompt, texts, workspaceName } from "../fixtures.ts";
import type { Agent } from "../peers/agent.ts";
import { Client } from "../peers/client.ts";
import { Host } from "../peers/host.ts";
import { turn } from "./fixtures.ts";

describe("initialize", () => {
  test("offers the agent's own capabilities and what the gateway can do for any agent", async () => {
    const workspace = workspaceName();
    const host = await Host.join(workspace, { initialize: false });
    const agentCapabilities = { promptCapabilities: { image: true }, sessionCapabilities: { own: {} } };
    host.send(
      JSON.stringify({ t: "agent", id: "scripted", initialize: { protocolVersion: 1, agentCapabilities } }),
    );
    const client = await Client.raw(workspace);
    const { response } = await client.request("initialize", { protocolVersion: 1, clientCapabilities: {} });
    expect(response.result).toMatchObject({
      agentCapabilities: {
        loadSession: true,
        promptCapabilities: { image: true },
        sessionCapabilities: { own: {}, list: {}, resume: {}, close: {}, delete: {}, fork: {} },
      },
    });
  });
});

describe("session/list", () => {
  const list = async (client: Client, params: Json = {}) =>
    (await client.request("session/list", params)).response as {
      result?: { sessions: Json[]; nextCursor?: string };
      error?: Json;
    };

  test("shows the caller's sessions under the directory the caller named", async () => {
    const opened = await openSession();
    const { client, sessionId, workspace } = opened;
    await vi.waitFor(async () => expect((await list(client)).result?.sessions).toHaveLength(1));
    const { result } = await list(client, { cwd: "/somewhere/else" });
    expect(result).toEqual({
      sessions: [
        {
          sessionId,
          cwd: "/somewhere/else",
          title: null,
          updatedAt: expect.any(String),
          archived: false,
          _meta: {
            "acp-edge/workspace": workspace,
            "acp-edge/agent": "scripted",
            "acp-edge/state": "active",
          },
        },
      ],
    });
    expect((await list(client, { cwd: "/workspace" })).result?.sessions).toHaveLength(1);
    expect((await list(client, { cwd: "/nowhere" })).result?.sessions).toEqual([]);
    expect((await list(await Client.open("elsewhere"))).result?.sessions).toEqual([]);
    expect((await list(await Client.open(workspace, "", "other"))).result?.sessions).toEqual([]);
  });

  test("has pages", async () => {
    const workspace = workspaceName();
    const insert = env.INDEX.prepare(
      `INSERT INTO sessions (id, tenant, workspace, agent, cwd, client_cwd, state, created_at, updated_at, last_seq)
       VALUES (?, 'acme', ?, 'scripted', '/w', '/c', 'active', '', ?, 1)`,
    );
    const ids = Array.from({ length: 120 }, () => crypto.randomUUID() as string);
    await env.INDEX.batch(ids.map((id, i) => insert.bind(id, workspace, new Date(1e12 + i).toISOString())));
    await Host.join(workspace);
    const client = await Client.open(workspace);
    const seen: unknown[] = [];
    for (let cursor: string | undefined; ; ) {
      const { result } = await list(client, { cwd: "/c", ...(cursor === undefined ? {} : { cursor }) });
      seen.push(...(result?.sessions ?? []).map((session) => session.sessionId));
      cursor = result?.nextCursor;
      if (cursor === undefined) break;
    }
    expect(seen).toEqual(ids.toReversed());
    expect((await list(client, { cursor: "made up" })).error).toMatchObject({ code: -32602 });
  });
});

describe("a setting of the agent", () => {
  test("is changed or refused by the agent", async () => {
    const { client, agent, sessionId } = await openSession();
    for (const [method, params] of [
      ["session/set_mode", { modeId: "plan" }],
      ["session/set_model", { modelId: "m" }],
      ["session/set_config_option", { configId: "c", value: "v" }],
    ] as const) {
      const id = client.call(method, { sessionId, ...params });
      const request = await agent.line();
      expect(request).toMatchObject({ method, params: { sessionId: "agent-session", ...params } });
      const error = { code: -32601, message: "Method not found" };
      agent.items(JSON.stringify({ jsonrpc: "2.0", id: request.id, error }));
      expect((await client.until(id)).response).toEqual({ jsonrpc: "2.0", id, error });
    }
    const id = client.call("session/set_mode", { sessionId, modeId: "plan" });
    agent.answer(await agent.line(), {});
    expect((await client.until(id)).response.result).toEqual({});
  });
});

describe("session/fork", () => {
  const fork = async (client: Client, sessionId: string, at?: number) =>
    (
      await client.request("session/fork", {
        sessionId,
        cwd: "/there",
        mcpServers: [{ name: "m", command: "c", args: [], env: [] }],
        ...(at === undefined ? {} : { _meta: { "acp-edge/at": at } }),
      })
    ).response as { result: { sessionId: string }; error?: Json };

  test("makes a session of its own with the history, and an agent that starts afresh", async () => {
    const opened = await openSession({ loadSession: true });
    const { client, host, workspace } = opened;
    await turn(opened, "one");
    const { result } = await fork(client, opened.sessionId);
    const sessionId = result.sessionId;
    expect(sessionId).not.toBe(opened.sessionId);

    const id = client.call("session/prompt", prompt(sessionId, "two"));
    const agent = await host.agent();
    const opening = await agent.line();
    // This agent can neither resume nor fork the other session.
    expect(opening).toMatchObject({
      method: "session/new",
      params: { cwd: "/workspace", mcpServers: [{ name: "m" }] },
    });
    agent.answer(opening, { sessionId: "fresh" });
    const request = await agent.line();
    agent.update("two", "fresh");
    agent.answer(request, { stopReason: "end_turn" });
    const { before } = await client.until(id);
    expect(texts(before)).toEqual(["two"]);
    expect(JSON.stringify(before)).toContain("does not remember");

    const reader = await Client.open(workspace);
    const load = async (which: string) =>
      texts((await reader.request("session/load", { sessionId: which, cwd: "/", mcpServers: [] })).before);
    expect(await load(sessionId)).toEqual(["one", "two"]);
    expect(await load(opened.sessionId)).toEqual(["one"]);
  });

  test("copies the history up to the requested event", async () => {
    const opened = await openSession();
    const { client, workspace, sessionId } = opened;
    await turn(opened, "one");
    const at = (await events(workspace, sessionId)).length;
    await turn(opened, "two");
    const copy = (await fork(client, sessionId, at)).result.sessionId;
    const reader = await Client.open(workspace);
    const { before } = await reader.request("session/load", { sessionId: copy, cwd: "/", mcpServers: [] });
    expect(texts(before)).toEqual(["one"]);
    expect((await fork(client, sessionId, 100_000)).error).toMatchObject({ code: -32602 });
  });

  test("uses the agent's own fork, and a new agent session when that fails", async () => {
    const opened = await openSession({ sessionCapabilities: { fork: {}, resume: {} } });
    const { client, host } = opened;
    await turn(opened, "one");
    const open = async (answer: (agent: Agent, request: Json & { id?: number }) => Promise<unknown>) => {
      const { sessionId } = (await fork(client, opened.sessionId)).result;
      const id = client.call("session/prompt", prompt(sessionId));
      const agent = await host.agent();
      const opening = await agent.line();
      expect(opening).toMatchObject({
        method: "session/fork",
        params: { sessionId: "agent-session", cwd: "/workspace" },
      });
      await answer(agent, opening);
      agent.answer(await agent.line(), { stopReason: "end_turn" });
      return JSON.stringify((await client.until(id)).before);
    };
    const forked = await open(async (agent, opening) => agent.answer(opening, { sessionId: "forked" }));
    expect(forked).not.toContain("does not remember");
    const failed = await open(async (agent, { id }) => {
      agent.items(JSON.stringify({ jsonrpc: "2.0", id, error: { code: -32603, message: "no" } }));
      const next = await agent.line();
      expect(next.method).toBe("session/new");
      agent.answer(next, { sessionId: "new" });
    });
    expect(failed).toContain("does not remember");
  });

  test("copies no running turn, and is not for strangers", async () => {
    const opened = await openSession();
    const { client, agent, sessionId } = opened;
    const id = client.call("session/prompt", prompt(sessionId));
    const request = await agent.line();
    const copy = (await fork(client, sessionId)).result.sessionId;
    const kinds = (await events(opened.workspace, copy)).map(({ kind }) => kind);
    expect(kinds).toContain("turn.failed");
    agent.answer(request, { stopReason: "end_turn" });
    const { response, before } = await client.until(id);
    expect(response.result).toEqual({ stopReason: "end_turn" });
    expect(before).toEqual([]);
    const stranger = await Client.open(opened.workspace, "", "other");
    expect((await fork(stranger, sessionId)).error).toMatchObject({ code: -32002 });
    expect((await fork(client, crypto.randomUUID())).error).toMatchObject({ code: -32002 });
  });
});
