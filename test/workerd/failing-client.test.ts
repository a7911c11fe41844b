import { expect, test } from "vitest";
import { openSession } from "./fixtures.ts";
import { permissionRequest } from "./peers/agent.ts";
import { Client } from "./peers/client.ts";

test("an error of one client decides nothing while another can answer; the last error goes to the agent", async () => {
  const { workspace, client, agent, sessionId } = await openSession();
  const other = await Client.open(workspace);
  const resume = () => ({ sessionId, cwd: "/", mcpServers: [] });
  await other.request("session/resume", resume());
  const fail = (id: unknown, message: string) =>
    JSON.stringify({ jsonrpc: "2.0", id, error: { code: -32603, message } });

  agent.items(permissionRequest(7));
  const asked = await other.takeJson();
  client.send(fail(asked.id, "no such terminal"));
  await client.request("session/resume", resume());
  const outcome = { outcome: "selected", optionId: "yes" };
  other.send(JSON.stringify({ jsonrpc: "2.0", id: asked.id, result: { outcome } }));
  expect(await agent.line()).toMatchObject({ id: 7, result: { outcome } });

  agent.items(permissionRequest(8));
  const again = await other.takeJson();
  client.send(fail(again.id, "first"));
  await client.request("session/resume", resume());
  other.send(fail(again.id, "last"));
  expect(await agent.line()).toMatchObject({ id: 8, error: { code: -32603, message: "last" } });
});
