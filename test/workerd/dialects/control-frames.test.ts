import { exports } from "cloudflare:workers";
import { describe, expect, test } from "vitest";
import * as webGateway from "../../fixtures/dialects/web-gateway.ts";
import type { Json } from "../../fixtures/json.ts";
import { get, send, workspaceName } from "../fixtures.ts";
import { Client } from "../peers/client.ts";
import { Host } from "../peers/host.ts";
import { token } from "../tokens.ts";

import { agentSocket, forSession, fromAgent, hostOf, openPrinted, sendPrinted, text } from "./fixtures.ts";

/** A web gateway client with a session of the only agent `one`. */
async function printedSession() {
  const workspace = workspaceName();
  const host = await hostOf(workspace, ["one"]);
  const client = await agentSocket(workspace);
  return {
    workspace,
    host,
    client,
    ...(await openPrinted(client, host, webGateway.initialize, webGateway.newSession)),
  };
}

describe("a control frame", () => {
  test("ping is answered before and after initialize", async () => {
    const client = await agentSocket(workspaceName());
    for (const ping of ['{"type":"ping"}', '{ "type" : "ping" }']) {
      client.send(ping);
      expect(await client.take()).toBe('{"type":"pong"}');
    }
    await client.request("initialize", { protocolVersion: 1 });
    client.send('{"type":"ping"}');
    expect(await client.take()).toBe('{"type":"pong"}');
  });

  test("gets an error when it is unknown, and on /acp always", async () => {
    const client = await agentSocket(workspaceName());
    for (const frame of ['{"type":"select_agent"}', '{"type":"stop"}', "{}"]) {
      client.send(frame);
      expect(await client.takeJson()).toMatchObject({ id: null, error: { code: -32600 } });
    }
    const other = await Client.open(workspaceName());
    for (const frame of [webGateway.selectAgent, '{"type":"ping"}']) {
      other.send(frame);
      expect(await other.takeJson()).toMatchObject({ id: null, error: { code: -32600 } });
    }
  });

  test("is answered with the known agents if it names an unknown agent", async () => {
    const workspace = workspaceName();
    await hostOf(workspace, ["one", "two"]);
    const client = await agentSocket(workspace);
    client.send(webGateway.selectAgent);
    expect(await client.takeJson()).toEqual({
      type: "agent_status",
      status: "error",
      agentType: "claude-code",
      error: 'Unknown agent "claude-code"; this workspace has: one, two',
    });
  });

  test("reports an agent as ready only once it has answered and a host is there", async () => {
    const workspace = workspaceName();
    const host = await Host.join(workspace, { initialize: false });
    const client = await agentSocket(workspace);
    client.send('{"type":"select_agent","agentType":"scripted"}');
    expect(await client.takeJson()).toMatchObject({ status: "starting" });
    host.send(JSON.stringify({ t: "agent_failed", id: "scripted", error: "it has no key" }));
    expect(await client.takeJson()).toMatchObject({ status: "error", error: "it has no key" });

    const lonely = await agentSocket(workspaceName());
    lonely.send(webGateway.selectAgent);
    expect(await lonely.takeJson()).toMatchObject({ status: "starting" });
    expect(await lonely.takeJson()).toMatchObject({
      status: "error",
      error: expect.stringContaining("No host"),
    });
  });

  test("can choose another agent: the first one stops, and initialize is sent again", async () => {
    const workspace = workspaceName();
    const host = await hostOf(workspace, ["one", "two"]);
    const client = await agentSocket(workspace);
    const first = await openPrinted(client, host, webGateway.initialize, webGateway.newSession);
    client.send(forSession(webGateway.prompt, first.sessionId));
    await first.agent.line();

    client.send('{"type":"select_agent","agentType":"two"}');
    const heard: Json[] = [];
    do heard.push(await client.takeJson());
    while (heard.at(-1)?.status !== "ready");
    const statuses = heard.filter(({ type }) => type === "agent_status");
    expect(statuses).toEqual([
      { type: "agent_status", status: "starting", agentType: "two" },
      { type: "agent_status", status: "ready", agentType: "two" },
    ]);
    expect(heard).toContainEqual({ jsonrpc: "2.0", id: 3, result: { stopReason: "cancelled" } });
    expect(await first.agent.stopped()).toBe("closed");

    client.send('{"jsonrpc":"2.0","id":7,"method":"initialize","params":{"protocolVersion":1}}');
    expect((await client.until(7)).response.result).toMatchObject({ protocolVersion: 1 });
    const opening = client.request("session/new", { cwd: "/", mcpServers: [] });
    let order = await host.takeJson();
    while (order.t === "warm") order = await host.takeJson();
    expect(order).toMatchObject({ t: "open", agent: "two" });
    void opening;
  });

  test("leaves the current agent as it is if it names an unknown agent", async () => {
    const { client, agent, sessionId } = await printedSession();
    client.send('{"type":"select_agent","agentType":"two"}');
    expect(await client.takeJson()).toMatchObject({ type: "agent_status", status: "error" });
    client.send(forSession(webGateway.prompt, sessionId));
    expect((await agent.line()).method).toBe("session/prompt");
  });

  test("reports a later failure of the agent", async () => {
    const workspace = workspaceName();
    const host = await hostOf(workspace, ["one"]);
    const client = await agentSocket(workspace);
    await sendPrinted(client, webGateway.initialize);
    client.send(webGateway.newSession);
    const agent = await host.agent();
    await agent.line();
    agent.items(JSON.stringify(["exit", { code: 3, signal: null, stderr: "no key" }]));
    const { response, before } = await client.until(2);
    expect(before).toEqual([
      {
        type: "agent_status",
        status: "error",
        agentType: "one",
        error: "The agent could not be started: exit code 3",
      },
    ]);
    expect(response.error).toMatchObject({ code: -32603 });
  });

  test("reports that an idle agent has ended, and that it is back", async () => {
    const workspace = workspaceName();
    const host = await hostOf(workspace, ["one"]);
    const client = await agentSocket(workspace);
    const canonical = await Client.open(workspace);
    const { agent, sessionId } = await openPrinted(
      client,
      host,
      webGateway.initialize,
      webGateway.newSession,
    );
    await canonical.request("session/resume", { sessionId, cwd: "/", mcpServers: [] });
    agent.items(JSON.stringify(["exit", { code: null, signal: "SIGKILL", stderr: "" }]));
    expect(await client.takeJson()).toEqual({
      type: "agent_status",
      status: "error",
      agentType: "one",
      error: "The agent process ended: killed by SIGKILL",
    });
    client.send(forSession(webGateway.prompt, sessionId));
    expect(await client.takeJson()).toEqual({ type: "agent_status", status: "restarting", agentType: "one" });
    const next = await host.agent();
    next.answer(await next.line(), { sessionId: "another" });
    const prompt = await next.line();
    expect(await client.takeJson()).toEqual({ type: "agent_status", status: "ready", agentType: "one" });
    next.answer(prompt, { stopReason: "end_turn" });
    await client.until(3);
    // A client on another endpoint gets no status notice.
    await canonical.request("session/resume", { sessionId, cwd: "/", mcpServers: [] }).then(({ before }) => {
      expect(before.map(({ method }) => method)).toEqual(["session/update", "session/update"]);
    });
  });

  test("does not report an error of a healthy agent as a failure", async () => {
    const { client, agent, sessionId } = await printedSession();
    client.send(forSession(webGateway.prompt, sessionId));
    const { id } = await agent.line();
    agent.items(JSON.stringify({ jsonrpc: "2.0", id, error: { code: -32603, message: "no luck" } }));
    expect((await client.until(3)).response.error).toMatchObject({ message: "no luck" });
    fromAgent(agent, { sessionUpdate: "agent_message_chunk", content: text("still here") });
    expect((await client.takeJson()).method).toBe("session/update");
  });

  test("[I7] is not needed to keep the agent at work: a disconnect leaves the turn running", async () => {
    const { workspace, client, agent, sessionId } = await printedSession();
    client.send(forSession(webGateway.prompt, sessionId));
    const prompt = await agent.line();
    client.socket.close();
    const second = await agentSocket(workspace);
    await sendPrinted(second, webGateway.initialize);
    const { response } = await second.request("session/load", { sessionId });
    expect(response.error).toBeUndefined();
    agent.answer(prompt, { stopReason: "end_turn" });
    await agent.durable();
  });

  test("needs a token and a WebSocket", async () => {
    const upgrade = { headers: { Upgrade: "websocket" } };
    expect((await exports.default.fetch("https://edge.test/agent/ws", upgrade)).status).toBe(401);
    const bearer = await token({ workspace: "w" });
    expect((await exports.default.fetch(`https://edge.test/agent/ws?token=${bearer}`)).status).toBe(426);
    const elsewhere = `https://edge.test/agent/ws?token=${bearer}&workspace=other`;
    expect((await exports.default.fetch(elsewhere, upgrade)).status).toBe(404);
  });
});

describe("an agent that clients know by another name", () => {
  const AGENTS = [{ id: "claude-acp", name: "Claude Code", default: true, aliases: ["claude-code"] }];

  test("is chosen by its alias, which every status repeats, and runs under its own id", async () => {
    const workspace = workspaceName();
    const host = await Host.join(workspace, { initialize: false, agents: AGENTS });
    host.send(JSON.stringify({ t: "agent", id: "claude-acp", initialize: { protocolVersion: 1 } }));
    const client = await agentSocket(workspace);
    client.send(webGateway.selectAgent);
    expect([await client.takeJson(), await client.takeJson()]).toEqual([
      { type: "agent_status", status: "starting", agentType: "claude-code" },
      { type: "agent_status", status: "ready", agentType: "claude-code" },
    ]);
    const { agent, sessionId } = await openPrinted(
      client,
      host,
      webGateway.initialize,
      webGateway.newSession,
    );
    agent.items(JSON.stringify(["exit", { code: 1, signal: null, stderr: "" }]));
    expect(await client.takeJson()).toMatchObject({ status: "error", agentType: "claude-code" });
    const view = await (await get(`/api/sessions/${sessionId}`, await token({ workspace }))).json();
    expect(view).toMatchObject({ agent: { name: "claude-acp" } });
  });
});

test("the modes of an agent's last session are known when the next client initializes", async () => {
  const workspace = workspaceName();
  const host = await hostOf(workspace, ["one"]);
  const modes = { currentModeId: "ask", availableModes: ["ask", "code"].map((id) => ({ id, name: id })) };
  const first = await agentSocket(workspace);
  const opened = await openPrinted(first, host, webGateway.initialize, webGateway.newSession, { modes });
  expect(opened.initialized.result).toMatchObject({ capabilities: { modes: [] } });
  await expect
    .poll(async () => {
      const { response } = await sendPrinted(await agentSocket(workspace), webGateway.initialize);
      return (response.result as { capabilities: Json }).capabilities.modes;
    })
    .toEqual(["ask", "code"]);
});

describe("a client that leaves", () => {
  async function left(closeWithLastClient: boolean, isAccompanied: boolean) {
    const workspace = workspaceName();
    const bearer = await token({ workspace, scopes: ["session:read", "workspace:admin"] });
    const set = await send("PUT", `/api/workspaces/${workspace}`, bearer, { closeWithLastClient });
    expect(await set.json()).toMatchObject({ closeWithLastClient });
    const host = await hostOf(workspace, ["one"]);
    const client = await agentSocket(workspace);
    const opened = await openPrinted(client, host, webGateway.initialize, webGateway.newSession);
    const other = await Client.open(workspace);
    const { sessionId } = opened;
    if (isAccompanied) await other.request("session/resume", { sessionId, cwd: "/", mcpServers: [] });
    client.socket.close(1000);
    const closed = async () => {
      const response = await get(`/api/sessions/${sessionId}`, await token({ workspace }));
      const { lifecycle, clients } = (await response.json()) as { lifecycle: Json; clients: Json[] };
      return { closed: lifecycle.closed, attached: clients.length };
    };
    return { ...opened, closed };
  }

  test("ends the agent if it was the last one and the workspace says so", async () => {
    const { agent, closed } = await left(true, false);
    expect(await agent.stopped()).toBe("closed");
    expect(await closed()).toMatchObject({ closed: true });
  });

  test.each([
    [true, true],
    [false, false],
  ])("leaves the session as it is otherwise", async (closes, isAccompanied) => {
    const { closed } = await left(closes, isAccompanied);
    await expect.poll(closed).toEqual({ closed: false, attached: isAccompanied ? 1 : 0 });
  });
});
