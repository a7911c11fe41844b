import { evictDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { beforeEach, describe, expect, test, vi } from "vitest";
import type { UsageList } from "../../src/protocol/usage.ts";
import type { Json } from "../fixtures/json.ts";
import { get, type Opened, openSession, prompt, send, sessionStub } from "./fixtures.ts";
import { setLimits } from "./limits.ts";
import type { Agent } from "./peers/agent.ts";
import { ALL_OF_A_CLIENT, mint, token } from "./tokens.ts";

beforeEach(() => setLimits({ indexDelayMs: 10 }));

/** A turn that costs so much, as the agent says. */
async function turn(
  { client, sessionId }: Pick<Opened, "client" | "sessionId">,
  agent: Agent,
  amount: number,
) {
  const id = client.call("session/prompt", prompt(sessionId));
  const request = await agent.line();
  const update = { sessionUpdate: "usage_update", used: 1, size: 2, cost: { amount, currency: "USD" } };
  const params = { sessionId: "agent-session", update };
  agent.items(JSON.stringify({ jsonrpc: "2.0", method: "session/update", params }));
  agent.answer(request, {
    stopReason: "end_turn",
    usage: { totalTokens: 10, inputTokens: 7, outputTokens: 3 },
  });
  await client.until(id);
}

async function usage(bearer: string, query = ""): Promise<UsageList> {
  const response = await get(`/api/usage${query}`, bearer);
  expect(response.status).toBe(200);
  return (await response.json()) as UsageList;
}

/** Waits until the index has this cost. */
async function known(bearer: string, cost: number): Promise<UsageList> {
  return vi.waitFor(async () => {
    const found = await usage(bearer);
    expect(found.usage.reduce((sum, { costs }) => sum + (costs.USD ?? 0), 0)).toBe(cost);
    return found;
  });
}

describe("the use of a session", () => {
  test("adds up over restarts, in its view and by day, workspace and user", async () => {
    const opened = await openSession();
    const { workspace, sessionId, host, agent, client } = opened;
    const bearer = await token({ workspace });
    await turn(opened, agent, 0.5);
    const { usage: sums } = await known(bearer, 0.5);
    const day = new Date().toISOString().slice(0, 10);
    expect(sums).toEqual([
      {
        ...{ day, workspace, user: "someone", agent: "scripted", sessions: 1 },
        costs: { USD: 0.5 },
        tokens: { total: 10, input: 7, output: 3 },
      },
    ]);
    agent.items(JSON.stringify(["exit", { code: 1, signal: null, stderr: "" }]));
    await agent.durable();
    await evictDurableObject(sessionStub(sessionId));
    const id = client.call("session/prompt", prompt(sessionId));
    const next = await host.agent();
    await next.openSession();
    next.answer(await next.line(), { stopReason: "end_turn" });
    await client.until(id);
    await turn(opened, next, 0.25);
    await known(bearer, 0.75);
    const view = (await (await get(`/api/sessions/${sessionId}`, bearer)).json()) as { usage: Json };
    expect(view.usage).toMatchObject({ cost: { amount: 0.25 }, total: { costs: { USD: 0.75 } } });
  });

  test("is seen within the workspaces of a token, and by no bearer of a link", async () => {
    const opened = await openSession();
    const other = await openSession();
    await turn(opened, opened.agent, 1);
    await turn(other, other.agent, 2);
    const { workspace, sessionId } = opened;
    const bearer = await mint({ workspaces: [workspace], scopes: ALL_OF_A_CLIENT, sub: "owner" });
    await known(bearer, 1);
    await known(await token({ workspace: other.workspace }), 2);
    for (const redact of [true, false]) {
      const made = await send("POST", "/api/shares", bearer, { session: sessionId, expiresIn: 60, redact });
      expect(made.status).toBe(201);
      const { token: link } = (await made.json()) as { token: string };
      expect(await usage(link)).toEqual({ usage: [], nextCursor: null });
      const view = (await (await get(`/api/sessions/${sessionId}`, link)).json()) as { usage: Json };
      if (redact) expect(view.usage).not.toHaveProperty("total");
    }
  });

  test("has pages, and outlives the session", async () => {
    const opened = await openSession();
    const { workspace, host, client, agent, sessionId } = opened;
    const opening = client.newSession();
    const second = await host.agent();
    await second.openSession();
    await opening;
    await turn(opened, agent, 1);
    await turn({ client, sessionId: second.sessionId }, second, 2);
    const bearer = await token({ workspace });
    await known(bearer, 3);
    const page = await usage(bearer, "?limit=1");
    const rest = await usage(bearer, `?limit=1&cursor=${encodeURIComponent(page.nextCursor ?? "")}`);
    const amounts = [page, rest].map(({ usage: [sum] }) => sum?.costs.USD);
    expect(amounts.toSorted()).toEqual([1, 2]);
    expect(rest.nextCursor).toBeNull();
    expect((await usage(bearer, "?since=2999-01-01")).usage).toEqual([]);
    expect((await get("/api/usage?since=soon", bearer)).status).toBe(400);
    await client.request("session/delete", { sessionId });
    await known(bearer, 3);
  });

  test("is one row per day, however many updates and turns there are", async () => {
    const opened = await openSession();
    for (let i = 1; i <= 5; i += 1) await turn(opened, opened.agent, i);
    await known(await token({ workspace: opened.workspace }), 5);
    const query = "SELECT count(*) AS n FROM usage WHERE tenant = 'acme' AND workspace = ?";
    expect(await env.INDEX.prepare(query).bind(opened.workspace).first("n")).toBe(1);
  });
});
