import { expect, test } from "vitest";
import { openSession, prompt } from "../fixtures.ts";
import { updateText } from "../peers/agent.ts";
import { Client } from "../peers/client.ts";

const ANNOUNCED = JSON.stringify({
  jsonrpc: "2.0",
  method: "session/update",
  params: { sessionId: "agent-session", update: { sessionUpdate: "subagent_update", sessionId: "child" } },
});

test("[I5] two clients and an observer know a sub-agent's session by one id, and reach it by that id", async () => {
  const { workspace, client, agent, sessionId } = await openSession();
  const others = [await Client.open(workspace), await Client.open(workspace, "&role=observer")];
  for (const other of others) await other.request("session/resume", { sessionId, cwd: "/", mcpServers: [] });
  const turn = client.call("session/prompt", prompt(sessionId));
  const running = await agent.line();
  agent.items(ANNOUNCED, updateText("from below", "child"));
  for (const other of others) await other.takeJson();
  for (const one of [client, ...others]) {
    expect(await one.takeJson()).toMatchObject({
      params: { sessionId, update: { sessionId: `${sessionId}/child` } },
    });
    expect(await one.takeJson()).toMatchObject({ params: { sessionId: `${sessionId}/child` } });
  }
  others[0]?.notify("session/cancel", { sessionId: `${sessionId}/child` });
  expect(await agent.line()).toMatchObject({ method: "session/cancel", params: { sessionId: "child" } });
  agent.answer(running, { stopReason: "end_turn" });
  expect((await client.until(turn)).response.result).toEqual({ stopReason: "end_turn" });
});

test("a sub-agent's id gives another tenant, and methods that the gateway serves, nothing", async () => {
  const { workspace, client, agent, sessionId } = await openSession();
  agent.items(ANNOUNCED);
  await client.takeJson();
  const child = `${sessionId}/child`;
  const stranger = await Client.open(workspace, "", "evil");
  const asked = await stranger.request("_vendor/x", { sessionId: child });
  expect(asked.response.error).toMatchObject({ code: -32002 });
  for (const method of ["session/close", "session/detach", "session/status", "session/archive"])
    expect((await client.request(method, { sessionId: child })).response.error).toMatchObject({
      code: -32002,
    });
  expect((await client.request("session/prompt", prompt(child))).response.error).toMatchObject({
    code: -32602,
  });
});
