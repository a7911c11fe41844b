import { beforeEach, describe, expect, test } from "vitest";
import { DEFAULT_LIMITS } from "../../src/protocol/limits.ts";
import type { Json } from "../fixtures/json.ts";
import { events, get, type Opened, openSession, workspaceName } from "./fixtures.ts";
import { setLimits } from "./limits.ts";
import { Client } from "./peers/client.ts";
import { Host } from "./peers/host.ts";
import { token } from "./tokens.ts";

beforeEach(() => setLimits({ openRequests: 5 }));

const permission = (id: unknown) =>
  JSON.stringify({
    jsonrpc: "2.0",
    id,
    method: "session/request_permission",
    params: { sessionId: "agent-session", toolCall: { toolCallId: "t" }, options: [] },
  });

/** Frames of the log, with their fate. */
async function frames({ workspace, sessionId }: Pick<Opened, "workspace" | "sessionId">): Promise<Json[]> {
  const all = await events(workspace, sessionId);
  return all.filter(({ kind }) => kind === "acp.frame").map(({ payload }) => payload as Json);
}

describe("a client whose requests the agent never answers", () => {
  test("is refused further requests until one of them is answered", async () => {
    const opened = await openSession();
    const { client, agent, sessionId } = opened;
    const ask = () => client.call("_vendor/ask", { sessionId });
    const asked = Array.from({ length: 5 }, ask);
    const lines = [];
    for (const _ of asked) lines.push(await agent.line());
    const { response, before } = await client.until(ask());
    expect(response.error).toMatchObject({ code: -32600, message: expect.stringContaining("5 requests") });
    expect(before).toEqual([]);
    // Prompts and notifications have limits of their own.
    client.notify("_vendor/note", { sessionId });
    expect(await agent.line()).toMatchObject({ method: "_vendor/note" });
    const turn = client.call("session/prompt", { sessionId, prompt: [] });
    agent.answer(await agent.line(), { stopReason: "end_turn" });
    await client.until(turn);
    agent.answer(lines[2] as Json, {});
    await client.until(asked[2]);
    const again = ask();
    agent.answer(await agent.line(), {});
    expect((await client.until(again)).response.result).toEqual({});
    const refused = (await frames(opened)).filter(({ stop }) => stop === "gateway");
    expect(refused.map(({ message }) => (message as Json).method)).toEqual(["_vendor/ask"]);
  });

  test("cannot fill the queue while there is no agent", async () => {
    const workspace = workspaceName();
    const host = await Host.join(workspace);
    const client = await Client.open(workspace);
    const opening = client.newSession();
    const agent = await host.agent();
    await agent.openSession();
    const sessionId = await opening;
    agent.items(JSON.stringify(["exit", { code: 1, signal: null, stderr: "" }]));
    await agent.durable();
    for (let i = 0; i < 8; i += 1) client.notify("_vendor/note", { sessionId, i });
    const { response } = await client.request("_vendor/ask", { sessionId });
    expect(response.error).toMatchObject({ code: -32600 });
    const next = await host.agent();
    await next.openSession();
    await next.arrived(5);
    for (let i = 0; i < 5; i += 1) expect(await next.line()).toMatchObject({ params: { i } });
    const sent = await frames({ workspace, sessionId });
    // Frames that went no further are in the log too.
    expect(sent.filter(({ message }) => (message as Json).method === "_vendor/note")).toHaveLength(8);
    const view = await get(`/api/sessions/${sessionId}`, await token({ workspace }));
    expect(await view.json()).toMatchObject({ queue: [] });
  });

  test("is refused an over-long method", async () => {
    const { client, sessionId } = await openSession();
    const { response } = await client.request(`_${"x".repeat(DEFAULT_LIMITS.idChars)}`, { sessionId });
    expect(response.error).toMatchObject({ code: -32600 });
  });

  test("adds nothing to storage by sending the same prompt again and again", async () => {
    const { client, agent, sessionId } = await openSession();
    const params = { sessionId, prompt: [], _meta: { "acp-edge/idempotencyKey": "k" } };
    const first = client.call("session/prompt", params);
    const request = await agent.line();
    const repeats = Array.from({ length: 5 }, () => client.call("session/prompt", params));
    expect((await client.request("session/prompt", params)).response.error).toMatchObject({ code: -32600 });
    agent.answer(request, { stopReason: "end_turn" });
    for (const id of [first, ...repeats])
      expect((await client.until(id)).response.result).toEqual({ stopReason: "end_turn" });
  });
});

describe("an agent whose requests nobody answers", () => {
  test.each([
    ["permissions", permission],
    ["its own methods", (id: unknown) => JSON.stringify({ jsonrpc: "2.0", id, method: "_vendor/ask" })],
  ])("gets an error for %s over the limit, and no client sees the request", async (_, request) => {
    const opened = await openSession();
    const { client, agent } = opened;
    for (let id = 0; id < 7; id += 1) agent.items(request(id));
    for (const id of [5, 6])
      expect(await agent.line()).toMatchObject({
        id,
        error: { code: -32600, message: "Clients have not answered 5 requests" },
      });
    const shown = [];
    for (let i = 0; i < 5; i += 1) shown.push(await client.takeJson());
    client.send(JSON.stringify({ jsonrpc: "2.0", id: shown[0]?.id, result: {} }));
    expect(await agent.line()).toMatchObject({ id: 0, result: {} });
    // The limit leaves room for one more request.
    agent.items(request("next"));
    expect((await client.takeJson()).method).toBe(shown[1]?.method);
    const refused = (await frames(opened)).filter(({ stop }) => stop === "gateway");
    expect(refused.map(({ message }) => (message as Json).id)).toEqual([5, 6]);
  });

  test("may send any number of requests that the host serves", async () => {
    const { agent } = await openSession();
    const read = (id: number) =>
      JSON.stringify({ jsonrpc: "2.0", id, method: "fs/read_text_file", params: { path: "/x" } });
    for (let id = 0; id < 8; id += 1) agent.items(read(id));
    for (let id = 0; id < 8; id += 1) {
      agent.items(
        JSON.stringify(["answer", JSON.stringify({ jsonrpc: "2.0", id, result: { content: "" } })]),
      );
      expect(await agent.line()).toMatchObject({ id, result: { content: "" } });
    }
  });

  test("is refused over-long ids and methods", async () => {
    const { agent } = await openSession();
    const long = "x".repeat(DEFAULT_LIMITS.idChars + 1);
    agent.items(permission(long));
    expect(await agent.line()).toMatchObject({ id: long, error: { code: -32600 } });
    agent.items(JSON.stringify({ jsonrpc: "2.0", id: 1, method: `_${long}` }));
    expect(await agent.line()).toMatchObject({ id: 1, error: { code: -32600 } });
  });
});
