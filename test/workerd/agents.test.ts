import { describe, expect, test } from "vitest";
import { get, workspaceName } from "./fixtures.ts";
import { Client } from "./peers/client.ts";
import { HELLO, Host } from "./peers/host.ts";
import { dialHost, Peer } from "./peers/peer.ts";
import { token } from "./tokens.ts";

/** The agents of a workspace: which are available, what the others lack, and what each of them can do. */

const DEMO = { id: "demo", name: "Demo", default: true, available: true };
const READY = {
  id: "ready",
  name: "Ready",
  default: false,
  available: true,
  description: "Does things",
  version: "1.0",
};
const NEEDY = {
  id: "needy",
  name: "Needy",
  default: false,
  available: false,
  reason: "needs A_KEY or B_KEY",
};

async function workspaceWith(agents: object[], name = "h1", workspace = workspaceName()) {
  const host = new Host(await dialHost(workspace, "/host/control"), workspace);
  const instance = crypto.randomUUID();
  const hello = { ...HELLO, name, instance, agents };
  host.send(JSON.stringify(hello));
  expect(await host.takeJson()).toEqual({ t: "welcome" });
  host.send(JSON.stringify(reports("demo", {})));
  return { workspace, host };
}

const reports = (id: string, agentCapabilities: object) => ({
  t: "agent",
  id,
  initialize: { protocolVersion: 1, agentCapabilities, agentInfo: { name: id, version: "1" } },
});

const INITIALIZE = { protocolVersion: 1, clientCapabilities: {} };

async function initialize(workspace: string, query: string) {
  const client = await Client.raw(workspace, query);
  return (await client.request("initialize", INITIALIZE)).response;
}

describe("GET /api/agents", () => {
  test("lists the agents of the token's workspace with what they lack", async () => {
    const { workspace } = await workspaceWith([DEMO, READY, NEEDY]);
    const response = await get("/api/agents", await token({ workspace }));
    expect(await response.json()).toMatchObject({
      agents: [
        { ...DEMO, reason: null },
        { ...NEEDY, ready: false },
        { ...READY, reason: null, error: null },
      ],
    });
  });

  test("is refused without the right to read in the workspace", async () => {
    const { workspace } = await workspaceWith([DEMO]);
    const bearer = await token({ workspace });
    expect((await get("/api/agents")).status).toBe(401);
    expect((await get("/api/agents", await token({ workspace, scopes: ["host"] }))).status).toBe(403);
    expect((await get("/api/agents?workspace=elsewhere", bearer)).status).toBe(404);
    expect((await get(`/api/agents?workspace=${workspace}`, bearer)).status).toBe(200);
    expect((await get("/api/agents", await token({ workspace: "*" }))).status).toBe(400);
  });

  test("shows an agent as available when any host has it", async () => {
    const { workspace } = await workspaceWith([DEMO, NEEDY]);
    await workspaceWith([DEMO, { ...NEEDY, available: true }], "h2", workspace);
    await workspaceWith([DEMO, NEEDY], "h3", workspace);
    const response = await get("/api/agents", await token({ workspace }));
    expect(await response.json()).toMatchObject({
      agents: [{}, { id: "needy", available: true, reason: null }],
    });
  });
});

describe("choosing an agent", () => {
  test("fails for an unknown agent and names the known ones", async () => {
    const { workspace } = await workspaceWith([DEMO, READY, NEEDY]);
    expect(await initialize(workspace, "&agent=nobody")).toMatchObject({
      error: {
        code: -32602,
        message: 'Unknown agent "nobody"; this workspace has: demo, ready',
        data: { agents: ["demo", "ready"] },
      },
    });
    expect(await initialize(workspace, "&agent=needy")).toMatchObject({
      error: {
        code: -32602,
        message: 'Agent "needy" is not available (needs A_KEY or B_KEY); this workspace has: demo, ready',
        data: { agents: ["demo", "ready"] },
      },
    });
  });

  test("fails for an unknown default agent", async () => {
    const { workspace } = await workspaceWith([{ ...NEEDY, default: true }]);
    expect(await initialize(workspace, "")).toMatchObject({
      error: { message: expect.stringContaining("this workspace has: none"), data: { agents: [] } },
    });
  });

  test("starts an agent nobody has used yet, to learn its capabilities", async () => {
    const { workspace, host } = await workspaceWith([DEMO, READY]);
    const answer = initialize(workspace, "&agent=ready");
    expect(await host.takeJson()).toEqual({ t: "warm", agent: "ready" });
    host.send(JSON.stringify(reports("ready", { promptCapabilities: { image: true } })));
    expect(await answer).toMatchObject({
      result: { agentInfo: { name: "ready" }, agentCapabilities: { promptCapabilities: { image: true } } },
    });
    // The next client gets the answer at once, and a warm process.
    expect(await initialize(workspace, "&agent=ready")).toMatchObject({ result: {} });
    expect(await host.takeJson()).toEqual({ t: "warm", agent: "ready" });
  });

  test("does not wait for an agent that cannot be started", async () => {
    const { workspace, host } = await workspaceWith([DEMO, READY]);
    const answer = initialize(workspace, "&agent=ready");
    expect(await host.takeJson()).toEqual({ t: "warm", agent: "ready" });
    host.send(JSON.stringify({ t: "agent_failed", id: "ready", error: "it broke" }));
    expect(await answer).toMatchObject({ result: { agentInfo: { name: "acp-edge" } } });
  });

  test("is refused on /agent/ws in the words of that dialect", async () => {
    const { workspace } = await workspaceWith([DEMO, NEEDY]);
    const client = await Peer.connect("/agent/ws", await token({ workspace }));
    client.send('{"type":"select_agent","agentType":"needy"}');
    expect(await client.takeJson()).toEqual({
      type: "agent_status",
      status: "error",
      agentType: "needy",
      error: 'Agent "needy" is not available (needs A_KEY or B_KEY); this workspace has: demo',
    });
  });

  test("succeeds as soon as the host reports the agent as available", async () => {
    const { workspace, host } = await workspaceWith([DEMO, NEEDY]);
    host.send(JSON.stringify({ t: "offers", agents: [DEMO, { ...NEEDY, available: true }] }));
    host.send(JSON.stringify(reports("needy", {})));
    await expect
      .poll(async () => (await initialize(workspace, "&agent=needy")).result)
      .toMatchObject({ agentInfo: { name: "needy" } });
  });
});
