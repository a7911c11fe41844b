import { expect, test } from "vitest";
import type { Json } from "../fixtures/json.ts";
import { get, openSession, prompt } from "./fixtures.ts";
import { Client } from "./peers/client.ts";
import { token } from "./tokens.ts";

/** A prompt that waits for the turn before it is part of the conversation from the moment its own turn begins. */

/** The conversation in these messages: who said what. */
function said(messages: readonly Json[]): string[] {
  return messages.flatMap((message) => {
    const { update } = (message.params ?? {}) as { update?: { sessionUpdate: string; content?: Json } };
    const kind = update?.sessionUpdate.replace("_message_chunk", "");
    return update?.content ? [`${kind}: ${update.content.text}`] : [];
  });
}

/** `client` asks first, `other` during the answer; a third prompt of `other` is taken out of the queue. */
async function conversation() {
  const { workspace, client, agent, sessionId } = await openSession();
  const other = await Client.open(workspace);
  await other.request("session/resume", { sessionId, cwd: "/other" });
  const first = client.call("session/prompt", prompt(sessionId, "first"));
  const firstLine = await agent.line();
  agent.update("one");
  await agent.durable();
  const heard = [...(await collect(other, "one"))];
  const second = other.call("session/prompt", prompt(sessionId, "second"));
  const third = other.call("session/prompt", prompt(sessionId, "dropped"));
  other.notify("$/cancel_request", { sessionId, requestId: third });
  heard.push(...(await other.until(third)).before);
  agent.update("more of one");
  agent.answer(firstLine, { stopReason: "end_turn" });
  const secondLine = await agent.line();
  agent.update("two");
  agent.answer(secondLine, { stopReason: "end_turn" });
  heard.push(...(await other.until(second)).before);
  const answered = await client.until(first);
  const after = await collect(client, "two");
  return { workspace, sessionId, heard, seen: [...answered.before, ...after] };
}

/** Takes messages up to the one with this text. */
async function collect(client: Client, text: string): Promise<Json[]> {
  const messages: Json[] = [];
  while (!said(messages).some((line) => line.endsWith(`: ${text}`))) messages.push(await client.takeJson());
  return messages;
}

const WHOLE = ["user: first", "agent: one", "agent: more of one", "user: second", "agent: two"];

test("a waiting prompt is shown when its turn begins, to all but its sender, and a dropped one to nobody", async () => {
  const { heard, seen } = await conversation();
  expect(said(seen)).toEqual(["agent: one", "agent: more of one", "user: second", "agent: two"]);
  expect(said(heard)).toEqual(["user: first", "agent: one", "agent: more of one", "agent: two"]);
});

test("a load, a load from a cursor, a fork and the transcript show the same conversation", async () => {
  const { workspace, sessionId } = await conversation();
  const bearer = await token({ workspace });
  const reader = await Client.open(workspace);
  const load = async (id: string, meta?: object) => {
    const params = { sessionId: id, cwd: "/r", mcpServers: [], ...(meta && { _meta: meta }) };
    return said((await reader.request("session/load", params)).before);
  };
  expect(await load(sessionId)).toEqual(WHOLE);
  expect(await load(sessionId, { "acp-edge/after": 0 })).toEqual(WHOLE);
  const { response } = await reader.request("session/fork", { sessionId, cwd: "/r", mcpServers: [] });
  expect(await load((response.result as { sessionId: string }).sessionId)).toEqual(WHOLE);
  const exported = await get(`/api/sessions/${sessionId}/export?format=markdown`, bearer);
  const transcript = await exported.text();
  const places = ["first", "more of one", "second", "two"].map((text) => transcript.indexOf(text));
  expect(places).toEqual([...places].sort((a, b) => a - b));
  expect(Math.min(...places)).toBeGreaterThan(0);
  expect(transcript).not.toContain("dropped");
});

test("a fork from before the turn began does not have its prompt", async () => {
  const { workspace, client, agent, sessionId } = await openSession();
  client.call("session/prompt", prompt(sessionId, "first"));
  await agent.line();
  client.call("session/prompt", prompt(sessionId, "second"));
  agent.update("one");
  await collect(client, "one");
  const reader = await Client.open(workspace);
  const forked = await reader.request("session/fork", { sessionId, cwd: "/r", mcpServers: [] });
  const { sessionId: copy } = forked.response.result as { sessionId: string };
  const { before } = await reader.request("session/load", { sessionId: copy, cwd: "/r", mcpServers: [] });
  expect(said(before)).toEqual(["user: first", "agent: one"]);
});
