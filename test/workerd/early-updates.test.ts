import { expect, test } from "vitest";
import { texts, workspaceName } from "./fixtures.ts";
import { updateText } from "./peers/agent.ts";
import { Client } from "./peers/client.ts";
import { Host } from "./peers/host.ts";

test("an update before the answer to session/new reaches the client after that answer, once", async () => {
  const workspace = workspaceName();
  const host = await Host.join(workspace);
  const client = await Client.open(workspace);
  const id = client.call("session/new", { cwd: "/", mcpServers: [] });
  const agent = await host.agent();
  const opening = await agent.line();
  agent.items(updateText("early"), updateText("earlier session", "another"));
  await agent.durable();
  agent.answer(opening, { sessionId: "agent-session" });
  agent.update("late");
  const { response, before } = await client.until(id);
  expect(before).toEqual([]);
  const { sessionId } = response.result as { sessionId: string };
  const first = await client.takeJson();
  expect(first.params).toMatchObject({ sessionId });
  expect(texts([first, await client.takeJson()])).toEqual(["early", "late"]);

  const reader = await Client.open(workspace);
  const loaded = await reader.request("session/load", { sessionId, cwd: "/", mcpServers: [] });
  expect(texts(loaded.before)).toEqual(["earlylate"]);
});
