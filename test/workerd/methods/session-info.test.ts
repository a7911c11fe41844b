import { evictDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { describe, expect, test } from "vitest";
import type { SessionList } from "../../../src/protocol/rest.ts";
import type { Json } from "../../fixtures/json.ts";
import { events, get, openSession, send, sessionStub } from "../fixtures.ts";
import { Client } from "../peers/client.ts";
import { token } from "../tokens.ts";

const lines = async (workspace: string, sessionId: string) => (await events(workspace, sessionId)).length;

async function listed(client: Client, params: Json = {}): Promise<Json[]> {
  const { response } = await client.request("session/list", params);
  return (response.result as { sessions: Json[] }).sessions;
}

describe("session/status", () => {
  test("says whether a process has the session, attaches nobody and starts nothing", async () => {
    const { workspace, sessionId, client, agent } = await openSession();
    const asker = await Client.open(workspace);
    const before = await lines(workspace, sessionId);
    expect((await asker.request("session/status", { sessionId })).response.result).toEqual({
      status: "open",
    });
    expect(await lines(workspace, sessionId)).toBe(before);
    await client.request("session/close", { sessionId });
    agent.items(JSON.stringify(["exit", { code: 0, signal: null, stderr: "" }]));
    await agent.durable();
    const closed = await lines(workspace, sessionId);
    const observer = await Client.open(workspace, "&role=observer");
    for (const one of [asker, observer])
      expect((await one.request("session/status", { sessionId })).response.result).toEqual({
        status: "saved",
      });
    expect(await lines(workspace, sessionId)).toBe(closed);
  });

  test("of a session that does not exist, or of another tenant, is an error with the id", async () => {
    const { workspace, sessionId } = await openSession();
    const stranger = await Client.open(workspace, "", "evil");
    for (const id of [sessionId, crypto.randomUUID(), "no-uuid"])
      expect((await stranger.request("session/status", { sessionId: id })).response.error).toMatchObject({
        code: -32002,
      });
    expect((await stranger.request("session/status", {})).response.error).toMatchObject({ code: -32602 });
  });
});

describe("session/set_title", () => {
  test("titles a session that the client is not attached to, tells its clients, and outlives the agent's titles", async () => {
    const { workspace, sessionId, client, agent } = await openSession();
    const other = await Client.open(workspace);
    const { response } = await other.request("session/set_title", { sessionId, title: " My\ntitle " });
    expect(response.result).toEqual({ title: "My title" });
    const told = {
      params: { sessionId, update: { sessionUpdate: "session_info_update", title: "My title" } },
    };
    expect(await client.takeJson()).toMatchObject(told);
    const update = { sessionUpdate: "session_info_update", title: "The agent's" };
    const params = { sessionId: "agent-session", update };
    agent.items(JSON.stringify({ jsonrpc: "2.0", method: "session/update", params }));
    expect(await client.takeJson()).toMatchObject({ params: { update } });
    expect(await client.takeJson()).toMatchObject(told);
    await evictDurableObject(sessionStub(sessionId));
    await expect
      .poll(async () => (await listed(other)).find((one) => one.sessionId === sessionId)?.title)
      .toBe("My title");
    const view = await get(`/api/sessions/${sessionId}`, await token({ workspace }));
    expect(await view.json()).toMatchObject({ title: "My title" });
  });

  test("[I12] is refused to an observer and to another tenant, and an empty title to anybody", async () => {
    const { workspace, sessionId, client } = await openSession();
    const before = await lines(workspace, sessionId);
    const observer = await Client.open(workspace, "&role=observer");
    const stranger = await Client.open(workspace, "", "evil");
    for (const [method, params] of [
      ["session/set_title", { title: "x" }],
      ["session/archive", {}],
      ["session/unarchive", {}],
    ] as const) {
      const refused = await observer.request(method, { sessionId, ...params });
      expect(refused.response.error).toMatchObject({ code: -32003 });
      const unknown = await stranger.request(method, { sessionId, ...params });
      expect(unknown.response.error).toMatchObject({ code: -32002 });
    }
    const empty = await client.request("session/set_title", { sessionId, title: "  " });
    expect(empty.response.error).toMatchObject({ code: -32602 });
    expect(await lines(workspace, sessionId)).toBe(before);
  });
});

describe("archived sessions", () => {
  test("are left out of lists unless they are asked for, by any client, over ACP and REST", async () => {
    const { workspace, sessionId, agent } = await openSession();
    const other = await Client.open(workspace);
    const isListed = async (params: Json) =>
      (await listed(other, params)).find((one) => one.sessionId === sessionId)?.archived;
    const bearer = await token({ workspace });
    const overRest = async (query: string) => {
      const list: SessionList = await (await get(`/api/sessions${query}`, bearer)).json();
      return list.sessions.find((one) => one.sessionId === sessionId)?.archived;
    };
    await expect.poll(() => isListed({})).toBe(false);
    expect((await other.request("session/archive", { sessionId })).response.result).toEqual({});
    expect(await agent.stopped()).toBe("closed");
    await expect.poll(() => isListed({})).toBeUndefined();
    expect(await isListed({ archived: "only" })).toBe(true);
    expect(await isListed({ archived: "include" })).toBe(true);
    expect(await isListed({ archived: "only", cwd: "/somewhere/else" })).toBe(true);
    expect(await isListed({ archived: "exclude", cwd: "/somewhere/else" })).toBeUndefined();
    expect((await other.request("session/list", { archived: "some" })).response.error).toMatchObject({
      code: -32602,
    });
    expect(await overRest("")).toBeUndefined();
    expect(await overRest("?archived=only")).toBe(true);
    const every = await token({ workspace: "*" });
    const all = await get("/api/sessions?archived=only", every);
    expect(JSON.stringify(await all.json())).toContain(sessionId);
    expect((await other.request("session/unarchive", { sessionId })).response.result).toEqual({});
    await expect.poll(() => isListed({})).toBe(false);
    const kinds = (await events(workspace, sessionId)).map(({ kind }) => kind);
    expect(kinds.filter((kind) => kind === "runtime.connected")).toHaveLength(1);
  });

  test("and titles come back with a reindex", async () => {
    const { workspace, sessionId } = await openSession();
    const path = `/api/sessions/${sessionId}`;
    const changed = await send("PATCH", path, await token({ workspace }), { title: "Kept", archived: true });
    expect(await changed.json()).toEqual({ title: "Kept", archived: true });
    const row = async () =>
      env.INDEX.prepare("SELECT title, archived FROM sessions WHERE tenant = 'acme' AND id = ?")
        .bind(sessionId)
        .first();
    await expect.poll(row).toEqual({ title: "Kept", archived: 1 });
    await env.INDEX.prepare("DELETE FROM sessions WHERE tenant = 'acme' AND id = ?").bind(sessionId).run();
    await sessionStub(sessionId).reindex(workspace);
    expect(await row()).toEqual({ title: "Kept", archived: 1 });
  });
});
