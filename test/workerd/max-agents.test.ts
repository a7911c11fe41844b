import { expect, test } from "vitest";
import { get, workspaceName } from "./fixtures.ts";
import { Client } from "./peers/client.ts";
import { Host } from "./peers/host.ts";
import { token } from "./tokens.ts";

/** A session whose process runs on the host. */
async function openOn(host: Host, client: Client) {
  const opening = client.newSession();
  const agent = await host.agent();
  await agent.openSession();
  return { agent, sessionId: await opening };
}

test("sessions beyond a host's limit wait until it has room", async () => {
  const workspace = workspaceName();
  const host = await Host.join(workspace, { maxAgents: 1 });
  const client = await Client.open(workspace);
  const { agent, sessionId } = await openOn(host, client);
  const other = await Client.open(workspace);
  const opening = other.newSession();
  const states = async () => {
    const view = await get(`/api/workspaces/${workspace}`, await token({ workspace }));
    const { sessions } = (await view.json()) as { sessions: { items: { state: string }[] } };
    return sessions.items.map(({ state }) => state).sort();
  };
  await expect.poll(states).toEqual(["placed", "waiting"]);
  await client.request("session/close", { sessionId });
  await agent.stopped();
  agent.items(JSON.stringify(["exit", { code: 0, signal: null, stderr: "" }]));
  const next = await host.agent();
  await next.openSession();
  expect(next.sessionId).toBe(await opening);
});

test("sessions beyond a host's limit go to another host", async () => {
  const workspace = workspaceName();
  const host = await Host.join(workspace, { maxAgents: 1, capacity: 1000 });
  const client = await Client.open(workspace);
  await openOn(host, client);
  const second = await Host.join(workspace, { name: "h2", capacity: 1 });
  const { agent } = await openOn(second, client);
  expect(agent.sessionId).not.toBe("");
  await openOn(second, client);
});
