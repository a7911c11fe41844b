import { evictDurableObject } from "cloudflare:test";
import { describe, expect, test } from "vitest";
import type { Json } from "../fixtures/json.ts";
import { events, get, type Opened, openSession, sessionStub } from "./fixtures.ts";
import { type Agent, updateText } from "./peers/agent.ts";
import { token } from "./tokens.ts";

function tool(agent: Agent, update: Json, sessionId = "agent-session"): string {
  const raw = JSON.stringify({ jsonrpc: "2.0", method: "session/update", params: { sessionId, update } });
  agent.items(raw);
  return raw;
}

async function log({ agent, workspace, sessionId }: Opened): Promise<Json[]> {
  await agent.durable();
  return events(workspace, sessionId);
}

async function violations(opened: Opened): Promise<Json[]> {
  return (await log(opened))
    .filter(({ kind, payload }) => kind === "error" && (payload as Json).violation !== undefined)
    .map(({ payload }) => payload as Json);
}

async function counted({ workspace, sessionId }: Opened): Promise<Json> {
  const view = await get(`/api/sessions/${sessionId}`, await token({ workspace }));
  return (await view.json<{ violations: Json }>()).violations;
}

const content = (text: string) => [{ type: "content", content: { type: "text", text } }];

describe("an agent that breaks the protocol", () => {
  test("has its frame passed on unchanged, counted, and noted beside that frame in the log", async () => {
    const opened = await openSession();
    const { client, agent, sessionId } = opened;
    const call = { sessionUpdate: "tool_call", toolCallId: "t", title: "T" };
    const update = { sessionUpdate: "tool_call_update", toolCallId: "t" };
    const sent = [
      tool(agent, call),
      tool(agent, { ...update, status: "completed", content: content("done") }),
      tool(agent, { ...update, status: "completed", content: content("done") }),
      tool(agent, { ...update, status: "in_progress" }),
      tool(agent, { ...update, content: content("changed") }),
      tool(agent, call),
      tool(agent, { ...call, toolCallId: "elsewhere" }, "another-session"),
    ];
    const shown = (raw: string) =>
      raw.replace("agent-session", sessionId).replace("another-session", `${sessionId}/another-session`);
    for (const raw of sent) expect(await client.take()).toBe(shown(raw));
    agent.items("not json at all", '{"jsonrpc":"2.0"}');
    const found = await violations(opened);
    expect(found.map(({ detailCode }) => detailCode)).toEqual([
      "backward_tool_status",
      "changed_tool_content",
      "duplicate_tool_call",
      "foreign_session",
      "no_message",
      "no_message",
    ]);
    expect(found.every(({ origin }) => origin === "agent")).toBe(true);
    const entries = await log(opened);
    for (const [i, raw] of [sent[3], sent[4], sent[5], sent[6]].entries()) {
      const frame = entries.find(({ seq }) => seq === found[i]?.frame);
      expect(frame).toMatchObject({ payload: { message: JSON.parse(raw as string) } });
    }
    expect(await counted(opened)).toEqual({
      backwardStatus: 1,
      changedContent: 1,
      duplicateToolCall: 1,
      foreignSession: 1,
      noMessage: 2,
    });
    // A violation is no failure of the session.
    const view = await get(`/api/sessions/${sessionId}`, await token({ workspace: opened.workspace }));
    expect(await view.json()).toMatchObject({ lastError: null, state: "active" });
  });

  test("has every violation counted but only the first ones of a turn noted", async () => {
    const opened = await openSession();
    const { client, agent, sessionId } = opened;
    const strange = updateText("x", "another-session");
    agent.items(...Array.from({ length: 50 }, () => strange));
    expect(await violations(opened)).toHaveLength(20);
    expect((await violations(opened)).at(-1)).toMatchObject({ last: true });
    await evictDurableObject(sessionStub(sessionId));
    await agent.reconnect();
    agent.items(strange);
    expect(await violations(opened)).toHaveLength(20);
    client.call("session/prompt", { sessionId, prompt: [] });
    await agent.line();
    agent.items(strange);
    expect(await violations(opened)).toHaveLength(21);
    expect(await counted(opened)).toMatchObject({ foreignSession: 52 });
  });
});

test.each([
  ["no tool call", { options: [{ optionId: "a", name: "A", kind: "allow_once" }] }],
  ["no options", { toolCall: { toolCallId: "t" } }],
  ["an option without an id", { toolCall: { toolCallId: "t" }, options: [{ name: "A" }] }],
])(
  "a permission request that nobody can answer gets an error, and the log says so: %s",
  async (_, params) => {
    const { agent, workspace, sessionId } = await openSession();
    const request = { jsonrpc: "2.0", id: 4, method: "session/request_permission" };
    agent.items(JSON.stringify({ ...request, params: { sessionId: "agent-session", ...params } }));
    expect(await agent.line()).toMatchObject({ id: 4, error: { code: -32602 } });
    const logged = (await events(workspace, sessionId)).map(({ payload }) => payload);
    expect(logged).toContainEqual(expect.objectContaining({ violation: "malformedRequest" }));
  },
);
