import { evictDurableObject, runInDurableObject } from "cloudflare:test";
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import type { PlacementAnswer, PlacementRequest } from "../../src/protocol/rpc.ts";
import type { AcpSession } from "../../src/session/acp-session.ts";
import { ProcessRequests } from "../../src/session/outbox/process-requests.ts";
import { WorkspaceState } from "../../src/workspace/workspace-state.ts";
import type { Json } from "../fixtures/json.ts";
import { endFaults, failCalls, type Method } from "./faults.ts";
import { events, get, openSession, prompt, sessionStub, workspaceName } from "./fixtures.ts";
import { openSession as openHttpSession } from "./http-transport/fixtures.ts";
import { setLimits } from "./limits.ts";
import { Client } from "./peers/client.ts";
import { Host } from "./peers/host.ts";
import { Resumable } from "./peers/resumable-client.ts";
import { token } from "./tokens.ts";

beforeEach(() => {
  for (const method of ["warn", "error"] as const) vi.spyOn(console, method).mockImplementation(() => {});
});
afterEach(() => {
  endFaults();
  vi.restoreAllMocks();
});

/** The calls to other objects between a client's first request and the end of its first turn. */
const FIRST_TURN: Method[] = [
  "subject.isRevoked",
  "subject.enter",
  "connection.fetch",
  "workspace.fetch",
  "workspace.selectAgent",
  "subject.takeSessionQuota",
  "session.open",
  "workspace.place",
  "workspace.placementOf",
  "session.fetch",
  "session.receive",
  "connection.startReading",
  "connection.deliver",
];

/** Opens a session and runs a turn. Resolves to the number of prompts that the agent got. */
async function firstTurn(): Promise<number> {
  const workspace = workspaceName();
  const host = await Host.join(workspace);
  const client = await Client.open(workspace);
  const opening = client.newSession();
  const agent = await host.agent();
  await agent.openSession();
  const sessionId = await opening;
  const turn = client.request("session/prompt", prompt(sessionId));
  agent.answer(await agent.line(), { stopReason: "end_turn" });
  expect((await turn).response).toMatchObject({ result: { stopReason: "end_turn" } });
  return prompts(await events(workspace, sessionId));
}

describe("a call between objects that the platform loses", () => {
  const lost = FIRST_TURN.flatMap((method) =>
    (["unsent", "unanswered"] as const).map((fault) => ({ method, fault })),
  );

  test.each(lost)("is made again: $method $fault", { timeout: 15_000 }, async ({ method, fault }) => {
    const calls = failCalls(method, fault);
    expect(await firstTurn()).toBe(1);
    await vi.waitFor(() => expect(calls()).toBeGreaterThanOrEqual(2), { timeout: 5_000 });
  });
});

describe("an object that does not take calls for a while", () => {
  const refusing = (["workspace.place", "session.receive", "connection.deliver"] as const).flatMap((method) =>
    (["overloaded", "failed", "silent"] as const).map((fault) => ({ method, fault })),
  );

  test.each(refusing)(
    "gets the call later, by a deadline: $method $fault",
    { timeout: 20_000 },
    async ({ method, fault }) => {
      setLimits({ callMs: 300 });
      const calls = failCalls(method, fault, 2);
      expect(await firstTurn()).toBe(1);
      expect(calls()).toBeGreaterThanOrEqual(3);
    },
  );

  test("is not called again at once when it is overloaded, and the request gets 503", async () => {
    const { workspace, sessionId } = await openSession();
    const bearer = await token({ workspace });
    const calls = failCalls("session.view", "overloaded", 9);
    const response = await get(`/api/sessions/${sessionId}`, bearer);
    expect(response.status).toBe(503);
    expect(response.headers.get("Retry-After")).toBe("1");
    expect(calls()).toBe(1);
  });

  test("frees the session's place on its host later", { timeout: 20_000 }, async () => {
    setLimits({ callMs: 300 });
    const calls = failCalls("workspace.release", "overloaded", 2);
    const { client, agent, sessionId, workspace } = await openSession();
    await client.request("session/close", { sessionId });
    await agent.stopped();
    agent.items(JSON.stringify(["exit", { code: 0, signal: null, stderr: "" }]));
    await vi.waitFor(() => expect(calls()).toBeGreaterThanOrEqual(3), { timeout: 15_000 });
    endFaults();
    const { sessions } = (await (
      await get(`/api/workspaces/${workspace}`, await token({ workspace }))
    ).json()) as { sessions: { total: number } };
    expect(sessions.total).toBe(0);
  });
});

describe("an answer of the workspace that comes late", () => {
  test("does not fail the turn of a process that has come meanwhile", async () => {
    const reason = "no host has the agent";
    const { place } = WorkspaceState.prototype;
    type Placing = { place(order: PlacementRequest): PlacementAnswer | Promise<PlacementAnswer> };
    const workspaces: Placing = WorkspaceState.prototype;
    let answer = () => {};
    const isLate = new Promise<void>((resolve) => {
      answer = resolve;
    });
    vi.spyOn(workspaces, "place").mockImplementation(function (this: WorkspaceState, order) {
      const placed = place.call(this, order);
      return isLate.then(() => ({ ...placed, unavailable: reason }));
    });
    const { client, agent, sessionId, workspace } = await openSession();
    const turn = client.request("session/prompt", prompt(sessionId));
    const asked = await agent.line();
    answer();
    // The session has recorded the answer when it has given the deadline for it up.
    await vi.waitFor(async () => expect(await deadlinesOf(sessionId)).not.toContain("place"));
    agent.answer(asked, { stopReason: "end_turn" });
    expect((await turn).response).toMatchObject({ result: { stopReason: "end_turn" } });
    expect(JSON.stringify(await events(workspace, sessionId))).not.toContain(reason);
  });

  test("is not asked for when the session has its process", async () => {
    const { sessionId } = await openSession();
    const calls = failCalls("workspace.place", "failed", 0);
    await runInDurableObject(sessionStub(sessionId), async (session: AcpSession, { storage }) => {
      storage.sql.exec("INSERT OR REPLACE INTO deadline (name, at) VALUES ('place', ?)", Date.now() - 1);
      await session.alarm();
    });
    expect(calls()).toBe(0);
    expect(await deadlinesOf(sessionId)).not.toContain("place");
  });
});

test("a delivery that has failed once is stored work while it is tried again", async () => {
  setLimits({ callMs: 1_000 });
  const { agent, sessionId } = await openSession();
  // The session keeps its stubs for as long as it is awake.
  await evictDurableObject(sessionStub(sessionId));
  const calls = failCalls("connection.deliver", "silent", 2);
  agent.update("missed");
  await vi.waitFor(() => expect(calls()).toBe(2), { timeout: 5_000 });
  expect(await deadlinesOf(sessionId)).toContain("delivery");
});

describe("effects of events", () => {
  test("follow later when they fail", { timeout: 15_000 }, async () => {
    const request = vi.spyOn(ProcessRequests.prototype, "request").mockImplementationOnce(() => {
      throw new Error("no effect");
    });
    expect(await firstTurn()).toBe(1);
    expect(request.mock.calls.length).toBeGreaterThanOrEqual(2);
  });

  test("include a login for the client's other sessions, which is relayed later", {
    timeout: 20_000,
  }, async () => {
    const { host, client, agent } = await openSession();
    const opening = client.newSession();
    const newest = await host.agent();
    await newest.openSession();
    await opening;
    const calls = failCalls("connection.relay", "overloaded", 2);
    const login = client.request("authenticate", { methodId: "key" });
    newest.answer(await newest.line(), {});
    expect((await login).response).toMatchObject({ result: {} });
    expect(await agent.line()).toMatchObject({ method: "authenticate", params: { methodId: "key" } });
    expect(calls()).toBe(3);
  });
});

test("a host that has just connected is not taken for a silent one", async () => {
  const { agent, sessionId, host } = await openSession();
  const { processRequest } = agent;
  await sessionStub(sessionId).hostAbsent({ host: host.name, processRequest, reason: "away" });
  agent.update("still here");
  await agent.durable();
});

describe("frames for a session that does not respond for long", () => {
  test("end a plain connection, and are answered by nobody", { timeout: 15_000 }, async () => {
    setLimits({ callMs: 100, frameRetryMs: 200 });
    const { client, sessionId } = await openSession();
    failCalls("session.receive", "silent", 99);
    client.call("session/prompt", prompt(sessionId));
    expect(await client.closed).toMatchObject({ code: 1013 });
  });

  test("come again over the resumable wire, and count once", { timeout: 20_000 }, async () => {
    setLimits({ callMs: 100, frameRetryMs: 200 });
    const workspace = workspaceName();
    const host = await Host.join(workspace);
    const client = await Resumable.open(workspace);
    const opening = client.request("session/new", { cwd: "/", mcpServers: [] });
    const agent = await host.agent();
    await agent.openSession();
    const { sessionId } = (await opening).result as { sessionId: string };
    failCalls("session.receive", "unanswered", 99);
    const frames = [
      { id: "p", method: "session/prompt", params: prompt(sessionId) },
      { id: "list", method: "session/list", params: {} },
    ];
    client.send(frames);
    expect(await client.peer.closed).toMatchObject({ code: 1013 });
    endFaults();
    await client.dial();
    expect(client.received).toBe(2);
    client.send(frames, 3);
    await client.until(() => client.received === 4);
    agent.answer(await agent.line(), { stopReason: "end_turn" });
    await client.until(() => client.answers("p").length > 0 && client.answers("list").length > 0);
    expect(client.answers("p")).toHaveLength(1);
    expect(client.answers("list")).toHaveLength(1);
    expect(prompts(await events(workspace, sessionId))).toBe(1);
  });

  test("are refused over HTTP", { timeout: 15_000 }, async () => {
    setLimits({ callMs: 100, frameRetryMs: 200 });
    const { peer, sessionId } = await openHttpSession();
    failCalls("session.receive", "silent", 99);
    const body = { jsonrpc: "2.0", id: "p", method: "session/prompt", params: prompt(sessionId) };
    const response = await peer.post(JSON.stringify(body), sessionId);
    expect(response.status).toBe(503);
    expect(response.headers.get("Retry-After")).toBe("5");
  });
});

function deadlinesOf(sessionId: string): Promise<string[]> {
  return runInDurableObject(sessionStub(sessionId), (_, { storage }) =>
    storage.sql
      .exec<{ name: string }>("SELECT name FROM deadline")
      .toArray()
      .map(({ name }) => name),
  );
}

/** The turns that a log has begun. */
function prompts(log: Json[]): number {
  return JSON.stringify(log).split('"turn.started"').length - 1;
}
