import { expect, test } from "vitest";
import { openSession, prompt } from "../fixtures.ts";
import { Client } from "../peers/client.ts";

test("a message put into a running turn reaches other clients, observers included, and is in every replay", async () => {
  const { workspace, client, agent, sessionId } = await openSession();
  const others = [await Client.open(workspace), await Client.open(workspace, "&role=observer")];
  for (const other of others) await other.request("session/resume", { sessionId, cwd: "/", mcpServers: [] });
  client.call("session/prompt", prompt(sessionId, "first"));
  await agent.line();
  const steering = client.call("_session/steering", prompt(sessionId, "rather this"));
  const request = await agent.line();
  expect(request).toMatchObject({ method: "_session/steering", params: { sessionId: "agent-session" } });
  agent.answer(request, { outcome: "injected" });
  const { response } = await client.until(steering);
  expect(response.result).toEqual({ outcome: "injected" });
  const chunk = (text: string) => ({
    params: { sessionId, update: { sessionUpdate: "user_message_chunk", content: { type: "text", text } } },
  });
  for (const other of others) {
    expect(await other.takeJson()).toMatchObject(chunk("first"));
    expect(await other.takeJson()).toMatchObject(chunk("rather this"));
  }
  for (const one of [client, ...others]) {
    const { before } = await one.request("session/load", { sessionId, cwd: "/", mcpServers: [] });
    expect(before).toMatchObject([chunk("first"), chunk("rather this")]);
  }
});
