/** Agents that break the rules of turns, sessions and logins. */
import { describe, expect } from "vitest";
import type { Json } from "../../fixtures/json.ts";
import { openSession, prompt, workspaceName } from "../fixtures.ts";
import { updateText } from "../peers/agent.ts";
import { Client } from "../peers/client.ts";
import { Host } from "../peers/host.ts";
import { bareClient, misbehaves, opened } from "./fixtures.ts";

const kinds = (messages: Json[]) =>
  messages.map(({ params }) => (params as { update?: { sessionUpdate?: string } }).update?.sessionUpdate);

describe("an agent that ends its turns wrongly", () => {
  misbehaves("bad_stop_reason", "clients get the reason as it is, and the turn has ended", async () => {
    const session = await opened();
    const { client, agent } = session.all;
    const { id, request } = await session.prompted();
    agent.answer(request, { stopReason: "finished" });
    expect((await client.until(id)).response.result).toEqual({ stopReason: "finished" });
    expect(await session.violations()).toEqual(["unknownStopReason"]);
    expect(await session.view()).toMatchObject({ turn: null });
    await session.worksOn();
  });

  misbehaves(
    "cancel_returns_error",
    "the client gets the agent's error, and the turn has ended",
    async () => {
      const session = await opened();
      const { client, agent, sessionId } = session.all;
      const { id, request } = await session.prompted();
      client.notify("session/cancel", { sessionId });
      await agent.line();
      const error = { code: -32800, message: "Request cancelled" };
      agent.items(JSON.stringify({ jsonrpc: "2.0", id: request.id, error }));
      expect((await client.until(id)).response).toMatchObject({ error: { code: -32800 } });
      expect(await session.view()).toMatchObject({ turn: null });
      await session.worksOn();
    },
  );

  misbehaves(
    "cancel_wrong_stop_reason",
    "the client gets the reason as it is, and the turn has ended",
    async () => {
      const session = await opened();
      const { client, agent, sessionId } = session.all;
      const { id, request } = await session.prompted();
      client.notify("session/cancel", { sessionId });
      await agent.line();
      agent.answer(request, { stopReason: "end_turn" });
      expect((await client.until(id)).response.result).toEqual({ stopReason: "end_turn" });
      await session.worksOn();
    },
  );

  misbehaves(
    "never_responds",
    "the prompt fails when the process ends, and the next runs in another",
    async () => {
      const session = await opened();
      const { client, agent, host, sessionId } = session.all;
      const { id } = await session.prompted();
      agent.items(JSON.stringify(["exit", { code: null, signal: "SIGKILL", stderr: "" }]));
      expect((await client.until(id)).response).toMatchObject({ error: { code: -32603 } });
      const next = client.call("session/prompt", prompt(sessionId));
      const second = await host.agent();
      await second.openSession();
      second.answer(await second.line(), { stopReason: "end_turn" });
      expect((await client.until(next)).response.result).toEqual({ stopReason: "end_turn" });
    },
  );

  misbehaves("exits_immediately", "session/new fails with the reason", async () => {
    const workspace = workspaceName();
    const host = await Host.join(workspace);
    const client = await bareClient(workspace);
    const id = client.call("session/new", { cwd: "/", mcpServers: [] });
    const agent = await host.agent();
    agent.items(JSON.stringify(["exit", { code: 3, signal: null, stderr: "no licence" }]));
    const { response } = await client.until(id);
    expect(response.error).toMatchObject({ code: -32603 });
    expect(JSON.stringify(response.error)).toContain("no licence");
  });
});

describe("an agent whose sessions are wrong", () => {
  misbehaves("duplicate_session_id", "clients get different ids all the same", async () => {
    const { host, client, sessionId, agent } = await openSession();
    const opening = client.newSession();
    const second = await host.agent();
    await second.openSession();
    const other = await opening;
    expect(other).not.toBe(sessionId);
    agent.update("first");
    expect(await client.takeJson()).toMatchObject({ params: { sessionId } });
    second.update("second");
    expect(await client.takeJson()).toMatchObject({ params: { sessionId: other } });
  });

  misbehaves(
    "advertises_load_but_errors",
    "the agent goes on in a new session, and clients are told",
    async () => {
      const session = await opened({ loadSession: true });
      await session.worksOn();
      const { id } = await session.restarts();
      const { agent, client } = session.all;
      const load = await agent.line();
      expect(load).toMatchObject({ method: "session/load" });
      const error = { code: -32603, message: "cannot load" };
      agent.items(JSON.stringify({ jsonrpc: "2.0", id: load.id, error }));
      await agent.openSession();
      agent.answer(await agent.line(), { stopReason: "end_turn" });
      const { response, before } = await client.until(id);
      expect(response.result).toEqual({ stopReason: "end_turn" });
      expect(kinds(before)).toContain("session_info_update");
    },
  );

  misbehaves("load_returns_null", "null counts as an answer without members", async () => {
    const session = await opened({ loadSession: true });
    const { id } = await session.restarts();
    const { agent, client } = session.all;
    const load = await agent.line();
    expect(load).toMatchObject({ method: "session/load" });
    agent.answer(load, null);
    agent.answer(await agent.line(), { stopReason: "end_turn" });
    expect((await client.until(id)).response.result).toEqual({ stopReason: "end_turn" });
  });

  misbehaves("resume_replays_history", "clients do not get the history a second time", async () => {
    const session = await opened({ sessionCapabilities: { resume: {} } });
    const { id } = await session.restarts();
    const { agent, client } = session.all;
    const resume = await agent.line();
    expect(resume).toMatchObject({ method: "session/resume" });
    agent.items(updateText("history"));
    agent.answer(resume, {});
    agent.answer(await agent.line(), { stopReason: "end_turn" });
    const { before, response } = await client.until(id);
    expect(response.result).toEqual({ stopReason: "end_turn" });
    expect(JSON.stringify(before)).not.toContain("history");
  });

  misbehaves("load_replays_after_response", "history that comes too late is passed on as new", async () => {
    const session = await opened({ loadSession: true });
    const { id } = await session.restarts();
    const { agent, client } = session.all;
    agent.answer(await agent.line(), {});
    agent.items(updateText("late history"));
    agent.answer(await agent.line(), { stopReason: "end_turn" });
    const { before, response } = await client.until(id);
    expect(response.result).toEqual({ stopReason: "end_turn" });
    expect(JSON.stringify(before)).toContain("late history");
  });
});

describe("an agent whose settings are wrong", () => {
  misbehaves(
    "mode_update_uses_modeId",
    "the update is passed on, and the session keeps its mode",
    async () => {
      const session = await opened();
      session.update({ sessionUpdate: "current_mode_update", modeId: "code" });
      expect(await session.received()).toMatchObject([
        { params: { update: { sessionUpdate: "current_mode_update", modeId: "code" } } },
      ]);
      await session.worksOn();
    },
  );

  misbehaves("boolean_option_unadvertised", "a client that cannot show switches gets none", async () => {
    const workspace = workspaceName();
    const host = await Host.join(workspace);
    const client = await bareClient(workspace);
    const id = client.call("session/new", { cwd: "/", mcpServers: [] });
    const agent = await host.agent();
    const option = { id: "verbose", name: "Verbose", type: "boolean", currentValue: false };
    agent.answer(await agent.line(), { sessionId: "agent-session", configOptions: [option] });
    expect(JSON.stringify((await client.until(id)).response.result)).not.toContain('"boolean"');
  });

  misbehaves(
    "terminal_auth_unadvertised",
    "a client that cannot open a terminal is offered no such login",
    async () => {
      const workspace = workspaceName();
      const host = await Host.join(workspace, { initialize: false });
      const authMethods = [
        { id: "key", name: "Key" },
        { id: "tty", name: "Terminal", type: "terminal" },
      ];
      const initialize = { protocolVersion: 1, agentCapabilities: {}, authMethods };
      host.send(JSON.stringify({ t: "agent", id: "scripted", initialize }));
      const client = await Client.raw(workspace);
      const { response } = await client.request("initialize", { protocolVersion: 1, clientCapabilities: {} });
      expect((response.result as { authMethods: unknown[] }).authMethods).toEqual([
        { id: "key", name: "Key" },
      ]);
    },
  );

  misbehaves(
    "config_partial_list",
    "the answer is passed on, and a later load has the new value",
    async () => {
      const workspace = workspaceName();
      const host = await Host.join(workspace);
      const client = await bareClient(workspace);
      const opening = client.call("session/new", { cwd: "/", mcpServers: [] });
      const agent = await host.agent();
      const option = (id: string, currentValue: string) => ({
        ...{ id, name: id, type: "select", currentValue },
        options: ["a", "b"].map((value) => ({ value, name: value })),
      });
      const configOptions = [option("one", "a"), option("two", "a")];
      agent.answer(await agent.line(), { sessionId: "agent-session", configOptions });
      const { sessionId } = (await client.until(opening)).response.result as { sessionId: string };
      const id = client.call("session/set_config_option", { sessionId, configId: "one", value: "b" });
      agent.answer(await agent.line(), { configOptions: [option("one", "b")] });
      expect((await client.until(id)).response.result).toMatchObject({ configOptions: [{ id: "one" }] });
      const { response } = await client.request("session/load", { sessionId, cwd: "/", mcpServers: [] });
      expect(response.result).toMatchObject({
        configOptions: expect.arrayContaining([expect.objectContaining({ id: "one", currentValue: "b" })]),
      });
    },
  );
});

describe("an agent that asks for what the client did not offer", () => {
  misbehaves("calls_elicitation_unadvertised", "a client without elicitation is asked nothing", async () => {
    const session = await opened();
    const { agent } = session.all;
    const params = {
      sessionId: "agent-session",
      mode: "form",
      message: "Which?",
      requestedSchema: { type: "object", properties: {} },
    };
    agent.items(JSON.stringify({ jsonrpc: "2.0", id: 5, method: "elicitation/create", params }));
    expect((await session.received()).map(({ method }) => method)).not.toContain("elicitation/create");
  });

  misbehaves("calls_fs_unadvertised", "a client without files is asked for none", async () => {
    const session = await opened();
    const params = { sessionId: "agent-session", path: "/workspace/a" };
    session.all.agent.items(JSON.stringify({ jsonrpc: "2.0", id: 6, method: "fs/read_text_file", params }));
    expect(await session.received()).toEqual([]);
  });

  misbehaves("calls_terminal_unadvertised", "a client without terminals is asked for none", async () => {
    const session = await opened();
    const params = { sessionId: "agent-session", command: "ls" };
    session.all.agent.items(JSON.stringify({ jsonrpc: "2.0", id: 7, method: "terminal/create", params }));
    expect(await session.received()).toEqual([]);
  });
});

describe("an agent that is particular about its start", () => {
  misbehaves("rejects_second_initialize", "it gets none from a second client", async () => {
    const { agent, workspace, sessionId } = await openSession();
    const second = await bareClient(workspace);
    await second.request("session/resume", { sessionId, cwd: "/", mcpServers: [] });
    const id = second.call("_suite/fence", { sessionId });
    const line = await agent.line();
    expect(line).toMatchObject({ method: "_suite/fence" });
    agent.answer(line, {});
    await second.until(id);
  });

  misbehaves("gated_by_auth", "a login holds for every session of its connection", async () => {
    const workspace = workspaceName();
    const host = await Host.join(workspace);
    const client = await bareClient(workspace);
    const login = client.call("authenticate", { methodId: "key" });
    const first = await host.agent();
    first.answer(await first.line(), {});
    await client.until(login);
    const opening = client.newSession();
    await first.openSession();
    await opening;
    const again = client.call("session/new", { cwd: "/", mcpServers: [] });
    const second = await host.agent();
    const answered = client.until(again);
    const refused = answered.then(({ response }) => {
      throw new Error(`The second session was refused: ${JSON.stringify(response)}`);
    });
    refused.catch(() => {});
    for (let isLoggedIn = false, isOpen = false; !isOpen; ) {
      const request = await Promise.race([second.line(), refused]);
      if (request.method === "authenticate") {
        isLoggedIn = true;
        second.answer(request, {});
      } else if (isLoggedIn) {
        isOpen = true;
        second.answer(request, { sessionId: "agent-session" });
      } else {
        const error = { code: -32000, message: "Authentication required" };
        second.items(JSON.stringify({ jsonrpc: "2.0", id: request.id, error }));
      }
    }
    expect((await answered).response).toHaveProperty("result");
  });
});
