import { evictDurableObject, runDurableObjectAlarm } from "cloudflare:test";
import { describe, expect, test, vi } from "vitest";
import type { Json } from "../fixtures/json.ts";
import { events, eventsText, get, type Opened, openSession, send, sessionStub } from "./fixtures.ts";
import { questionRequest } from "./peers/agent.ts";
import { Client } from "./peers/client.ts";
import { mint, token } from "./tokens.ts";

const SECRET = "correct horse battery staple";

/** A session whose agent waits for an answer. */
async function asking(): Promise<Opened & { id: string }> {
  const opened = await openSession();
  opened.agent.items(questionRequest("q"));
  return { ...opened, id: (await opened.client.takeJson()).id as string };
}

async function facts({ workspace, sessionId }: Opened, kind: string): Promise<Json[]> {
  const all = await events(workspace, sessionId);
  return all.filter((event) => event.kind === kind).map((event) => event.payload as Json);
}

async function listed(bearer: string): Promise<Json[]> {
  const response = await get("/api/questions?state=pending", bearer);
  expect(response.status).toBe(200);
  return ((await response.json()) as { questions: Json[] }).questions;
}

describe("a pending question", () => {
  test("[I7] survives disconnects, eviction and a cut link, and is answered over REST with nobody attached", async () => {
    const opened = await asking();
    const { client, agent, sessionId, workspace, id } = opened;
    client.socket.close();
    await client.closed;
    await evictDurableObject(sessionStub(sessionId));
    const bearer = await token({ workspace, subject: "phone" });
    await vi.waitFor(async () => expect(await listed(bearer)).toHaveLength(1));
    const { params } = JSON.parse(questionRequest("q")) as { params: Json };
    const { message, requestedSchema } = params;
    expect(await listed(bearer)).toMatchObject([
      { id, sessionId, workspace, mode: "form", message, requestedSchema, url: null, toolCallId: null },
    ]);
    const whole = await get(`/api/questions/${id}`, bearer);
    expect(await whole.json()).toMatchObject({ id, sessionId, workspace, message, requestedSchema });
    const view = await get(`/api/sessions/${sessionId}`, bearer);
    expect(await view.json()).toMatchObject({ pendingQuestions: [{ mode: "form", message }] });

    const answer = (body: unknown) => send("POST", `/api/questions/${id}`, bearer, body);
    const wrong = await answer({ action: "accept", content: { name: 5, nick: "?" } });
    expect(wrong.status).toBe(400);
    expect(await wrong.json()).toMatchObject({
      error: {
        code: "bad_answer",
        fields: [
          { field: "name", message: "must be a text" },
          { field: "nick", message: "is no field of the form" },
        ],
      },
    });
    expect((await answer({ action: "accept" })).status).toBe(400);
    expect((await answer({ action: "maybe" })).status).toBe(400);
    await agent.reconnect();
    await evictDurableObject(sessionStub(sessionId));
    const content = { name: SECRET, colour: "red", times: 2, really: true, tags: ["a"] };
    const right = await answer({ action: "accept", content });
    expect([right.status, await right.json()]).toEqual([200, { id, action: "accept" }]);
    expect(await agent.line()).toEqual({ jsonrpc: "2.0", id: "q", result: { action: "accept", content } });
    expect(await facts(opened, "question.responded")).toMatchObject([
      { action: "accept", by: "rest", subject: "phone" },
    ]);
    expect(await eventsText(workspace, sessionId)).not.toContain(SECRET);
    expect((await answer({ action: "decline" })).status).toBe(404);
    expect((await get(`/api/questions/${id}`, bearer)).status).toBe(404);
    await vi.waitFor(async () => expect(await listed(bearer)).toEqual([]));
  });

  test("that a person answers over REST is withdrawn from the clients that were asked", async () => {
    const opened = await asking();
    const { client, agent, workspace, id } = opened;
    const declined = await send("POST", `/api/questions/${id}`, await token({ workspace }), {
      action: "decline",
    });
    expect(declined.status).toBe(200);
    expect(await agent.line()).toEqual({ jsonrpc: "2.0", id: "q", result: { action: "decline" } });
    expect(await client.takeJson()).toMatchObject({ method: "$/cancel_request", params: { requestId: id } });
  });

  test("is offered to a client that attaches later, if it can ask its user", async () => {
    const { agent, sessionId, workspace, id } = await asking();
    const join = async (capabilities?: object) => {
      const client = await Client.open(workspace, "", "acme", {}, capabilities);
      await client.request("session/load", { sessionId, cwd: "/", mcpServers: [] });
      return client;
    };
    const [able, plain] = [await join(), await join({})];
    expect(await able.takeJson()).toMatchObject({ id, method: "elicitation/create" });
    agent.update("after");
    expect(await plain.takeJson()).toMatchObject({ method: "session/update" });
  });

  test("is declined when its time is over", async () => {
    const opened = await asking();
    const { agent, workspace, sessionId } = opened;
    const admin = await token({ workspace, scopes: ["session:read", "workspace:admin"] });
    const policy = { timeoutMs: 100 };
    expect((await send("PUT", `/api/workspaces/${workspace}`, admin, { policy })).status).toBe(200);
    await vi.waitFor(async () => expect(await facts(opened, "permission.policy")).toHaveLength(1));
    const line = agent.line();
    await vi.waitFor(async () => {
      await runDurableObjectAlarm(sessionStub(sessionId));
      expect(await facts(opened, "question.responded")).toMatchObject([{ action: "decline", by: "policy" }]);
    });
    expect(await line).toEqual({ jsonrpc: "2.0", id: "q", result: { action: "decline" } });
  });

  test("is invisible to strangers, who cannot answer it, and readers may not", async () => {
    const { workspace, id, sessionId } = await asking();
    const answer = async (bearer: string) =>
      (await send("POST", `/api/questions/${id}`, bearer, { action: "decline" })).status;
    expect(await answer(await token({ workspace, tenant: "other" }))).toBe(404);
    expect(await answer(await token({ workspace: "elsewhere" }))).toBe(404);
    expect(await answer(await token({ workspace, scopes: ["session:read"] }))).toBe(403);
    expect(await listed(await token({ workspace: "elsewhere" }))).toEqual([]);
    const nonsense = await send("POST", "/api/questions/nonsense", await token({ workspace }), {});
    expect(nonsense.status).toBe(404);
    // A permission is no question, and a question no permission.
    const bearer = await token({ workspace });
    expect((await send("POST", `/api/permissions/${id}`, bearer, { optionId: "yes" })).status).toBe(404);
    // The bearer of a redacted link sees that a question waits, and not what it says.
    const sharer = await mint({
      workspaces: [workspace],
      scopes: ["session:read", "session:prompt", "share"],
    });
    const made = await send("POST", "/api/shares", sharer, { session: sessionId, redact: true });
    const { token: link } = (await made.json()) as { token: string };
    await vi.waitFor(async () =>
      expect(await listed(link)).toMatchObject([{ id, mode: "form", message: null, requestedSchema: null }]),
    );
    const view = JSON.stringify(await (await get(`/api/sessions/${sessionId}`, link)).json());
    expect(view).toContain('"mode":"form"');
    expect(view).not.toContain("Who are you?");
  });
});
