import { evictDurableObject } from "cloudflare:test";
import { describe, expect, test } from "vitest";
import type { Json } from "../fixtures/json.ts";
import { events, prompt, sessionStub, workspaceName } from "./fixtures.ts";
import { setLimits } from "./limits.ts";
import type { Agent } from "./peers/agent.ts";
import { Client } from "./peers/client.ts";
import { Host } from "./peers/host.ts";

const availableModes = ["default", "plan"].map((id) => ({ id, name: id }));
const modes = (currentModeId: string) => ({ currentModeId, availableModes });

/** A session in plan mode, which one of its two clients has set. */
async function inPlanMode() {
  const workspace = workspaceName();
  const host = await Host.join(workspace);
  host.capabilities = { sessionCapabilities: { resume: {} } };
  const client = await Client.open(workspace);
  const opening = client.newSession();
  const agent = await host.agent();
  agent.answer(await agent.line(), { sessionId: "agent-session", modes: modes("default") });
  const sessionId = await opening;
  const other = await Client.open(workspace);
  await other.request("session/load", { sessionId, cwd: "/", mcpServers: [] });
  const id = client.call("session/set_mode", { sessionId, modeId: "plan" });
  agent.answer(await agent.line(), {});
  expect((await client.until(id)).before).toEqual([]);
  // The agent has sent no update of its own.
  expect(updateIn(await other.takeJson())).toEqual({
    sessionUpdate: "current_mode_update",
    currentModeId: "plan",
  });
  return { workspace, host, client, other, agent, sessionId };
}

/** The process ends, and the next one answers the session/resume; its mode is the agent's default. */
async function restarted(host: Host, agent: Agent): Promise<Agent> {
  agent.items(JSON.stringify(["exit", { code: 1, signal: null, stderr: "" }]));
  const next = await host.agent();
  const resume = await next.line();
  expect(resume.method).toBe("session/resume");
  next.answer(resume, { modes: modes("default") });
  return next;
}

function updateIn(message: Json): Json | undefined {
  return (message.params as { update?: Json } | undefined)?.update;
}

async function end(client: Client, agent: Agent, turn: number) {
  const request = await agent.line();
  expect(request.method).toBe("session/prompt");
  agent.answer(request, { stopReason: "end_turn" });
  return client.until(turn);
}

describe("the mode of a session", () => {
  test("holds when the process is started again, before the next prompt runs", async () => {
    const { client, host, agent, sessionId, workspace } = await inPlanMode();
    await evictDurableObject(sessionStub(sessionId));
    const lost = client.call("session/prompt", prompt(sessionId, "one"));
    await agent.line();
    const turn = client.call("session/prompt", prompt(sessionId, "two"));
    const next = await restarted(host, agent);
    const asked = await next.line();
    expect(asked).toMatchObject({
      method: "session/set_mode",
      params: { sessionId: "agent-session", modeId: "plan" },
    });
    await evictDurableObject(sessionStub(sessionId));
    next.answer(asked, {});
    expect((await client.until(lost)).response.error).toMatchObject({ data: { outcome: "unknown" } });
    await end(client, next, turn);
    const { response } = await client.request("session/resume", { sessionId, cwd: "/", mcpServers: [] });
    expect(response.result).toMatchObject({ modes: { currentModeId: "plan" } });
    const kinds = (await events(workspace, sessionId)).map(({ kind }) => kind);
    expect(kinds.lastIndexOf("agent.settings.restored")).toBeLessThan(kinds.lastIndexOf("turn.started"));
  });

  test("is told to every client before the next prompt runs, if the agent refuses it", async () => {
    const { client, other, host, agent, sessionId } = await inPlanMode();
    client.call("session/prompt", prompt(sessionId, "one"));
    await agent.line();
    const turn = client.call("session/prompt", prompt(sessionId, "two"));
    const next = await restarted(host, agent);
    const { id } = await next.line();
    next.items(JSON.stringify({ jsonrpc: "2.0", id, error: { code: -32602, message: "no" } }));
    const { before } = await end(client, next, turn);
    for (const seen of [before, await seenUntilTurn(other)])
      expect(seen.map(updateIn)).toContainEqual({
        sessionUpdate: "current_mode_update",
        currentModeId: "default",
      });
  });

  test("holds up prompts of an agent that does not answer for a while only", async () => {
    setLimits({ settingsMs: 50 });
    const { client, host, agent, sessionId } = await inPlanMode();
    client.call("session/prompt", prompt(sessionId, "one"));
    await agent.line();
    const turn = client.call("session/prompt", prompt(sessionId, "two"));
    const next = await restarted(host, agent);
    expect((await next.line()).method).toBe("session/set_mode");
    const { before } = await end(client, next, turn);
    expect(before.map(updateIn)).toContainEqual({
      sessionUpdate: "current_mode_update",
      currentModeId: "default",
    });
  });
});

/** The messages that a client gets up to the notice that a setting is lost. */
async function seenUntilTurn(client: Client): Promise<Json[]> {
  const seen: Json[] = [];
  for (;;) {
    const message = await client.takeJson();
    seen.push(message);
    if (JSON.stringify(message).includes("session.settings_lost")) return seen;
  }
}
