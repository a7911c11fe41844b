import { evictDurableObject } from "cloudflare:test";
import { describe, expect, test, vi } from "vitest";
import { openSession, sessionStub } from "../fixtures.ts";
import { setLimits } from "../limits.ts";
import { mint } from "../tokens.ts";
import { ask, connect, linkTo } from "./fixtures.ts";

const STREAM = { Accept: "text/event-stream" };

describe("the places of a session", () => {
  test("for live readers: links get a part of them, and never the owner's", async () => {
    setLimits({ watchersPerSession: 4, linkWatchersPerSession: 2 });
    const { sessionId, workspace } = await openSession();
    const link = await linkTo(workspace, sessionId);
    const another = await linkTo(workspace, sessionId, true);
    const owner = await mint({ workspaces: [workspace] });
    const colleague = await mint({ workspaces: [workspace], sub: "colleague", scopes: ["session:read"] });
    const watch = async (bearer: string) => {
      const response = await ask("GET", `/api/sessions/${sessionId}/events`, bearer, STREAM);
      return response.status;
    };
    expect([await watch(link), await watch(another), await watch(link), await watch(another)]).toEqual([
      200, 200, 429, 429,
    ]);
    expect([await watch(colleague), await watch(colleague), await watch(colleague)]).toEqual([200, 200, 429]);
    expect([await watch(owner), await watch(owner)]).toEqual([200, 200]);
    expect(await watch(link)).toBe(429);
  });

  test("for live readers: one user gets a part of them, and colleagues find a place", async () => {
    setLimits({ watchersPerSession: 4, watchersPerSubject: 2 });
    const { sessionId, workspace } = await openSession();
    const reader = (sub: string) => mint({ workspaces: [workspace], sub, scopes: ["session:read"] });
    const [greedy, colleague] = [await reader("greedy"), await reader("colleague")];
    const watch = async (bearer: string) =>
      (await ask("GET", `/api/sessions/${sessionId}/events`, bearer, STREAM)).status;
    expect([await watch(greedy), await watch(greedy), await watch(greedy)]).toEqual([200, 200, 429]);
    expect([await watch(colleague), await watch(colleague)]).toEqual([200, 200]);
  });

  test("for clients: links get a part of them, and never the owner's", async () => {
    setLimits({ clientsPerSession: 4, linkClientsPerSession: 2 });
    const { sessionId, workspace } = await openSession();
    const link = await linkTo(workspace, sessionId);
    const owner = await mint({ workspaces: [workspace] });
    const colleague = await mint({ workspaces: [workspace], sub: "colleague" });
    const attach = async (bearer: string, method = "session/load") => {
      const { client } = await connect(bearer, bearer === link ? "" : `?workspace=${workspace}`);
      const { response } = await client.request(method, { sessionId, cwd: "/", mcpServers: [] });
      return { client, code: (response.error as { code: number } | undefined)?.code };
    };
    const code = async (bearer: string, method?: string) => (await attach(bearer, method)).code;
    const first = await attach(link);
    expect([first.code, await code(link), await code(link)]).toEqual([undefined, undefined, -32004]);
    expect([await code(colleague), await code(colleague), await code(colleague, "session/resume")]).toEqual([
      undefined,
      -32004,
      -32004,
    ]);
    expect(await code(owner)).toBe(undefined);
    // A client that is attached keeps its place, and one that leaves frees it.
    const again = await first.client.request("session/load", { sessionId, cwd: "/", mcpServers: [] });
    expect(again.response).toHaveProperty("result");
  });

  test("in the log: readers add little to it in an hour, and links use up only their own share", async () => {
    vi.useFakeTimers({ toFake: ["Date"] });
    setLimits({ readerLogCharsPerHour: 3000 });
    const { sessionId, workspace, client } = await openSession();
    await evictDurableObject(sessionStub(sessionId));
    const load = { sessionId, cwd: "/", mcpServers: [] };
    const link = (await connect(await linkTo(workspace, sessionId))).client;
    let loads = 0;
    let error: unknown;
    for (; error === undefined && loads < 100; loads += 1)
      ({ error } = (await link.request("session/load", load)).response);
    expect(loads).toBeLessThan(20);
    expect(error).toMatchObject({ code: -32004, data: { retryAfterMs: expect.any(Number) } });
    const reader = await mint({ workspaces: [workspace], sub: "colleague", scopes: ["session:read"] });
    const own = (await connect(reader, `?workspace=${workspace}`)).client;
    expect((await own.request("session/load", load)).response).toHaveProperty("result");
    expect((await client.request("session/load", load)).response).toHaveProperty("result");
    vi.setSystemTime(Date.now() + 3_600_000);
    expect((await link.request("session/load", load)).response).toHaveProperty("result");
    vi.useRealTimers();
  });
});
