import { runInDurableObject } from "cloudflare:test";
import { env, exports } from "cloudflare:workers";
import { describe, expect, test, vi } from "vitest";
import { DEFAULT_LIMITS } from "../../../src/protocol/limits.ts";
import { AcpSession } from "../../../src/session/acp-session.ts";
import type { Json } from "../../fixtures/json.ts";
import { get, openSession, send, workspaceName, workspaceStub } from "../fixtures.ts";
import { HELLO, Host } from "../peers/host.ts";
import { token } from "../tokens.ts";
import { admin, kinds, session, set, view } from "./fixtures.ts";

describe("a workspace", () => {
  test("[I12] looks empty when nobody knows it, and looking leaves no trace", async () => {
    const workspace = workspaceName();
    expect(await view(workspace)).toMatchObject({
      id: workspace,
      hosts: [],
      agents: [],
      git: null,
      root: null,
    });
    const rights = { workspaces: [workspace], scopes: ["session:read"], expires: 0 } as const;
    await workspaceStub(workspace).selectAgent({ tenant: "acme", subject: "someone", ...rights }, null);
    await workspaceStub(workspace).release("s", 1);
    const tables = await runInDurableObject(workspaceStub(workspace), (_, { storage }) =>
      storage.sql.exec("SELECT name FROM sqlite_master WHERE name NOT LIKE '\\_cf%' ESCAPE '\\'").toArray(),
    );
    expect(tables).toEqual([]);
  });

  test("is configured one setting at a time", async () => {
    const workspace = workspaceName();
    await set(workspace, { name: "Backend", sharedFiles: true });
    expect(await set(workspace, { defaultAgent: "scripted", clientIo: "client" })).toMatchObject({
      name: "Backend",
      sharedFiles: true,
      defaultAgent: "scripted",
      clientIo: "client",
      hostGraceMs: DEFAULT_LIMITS.hostGraceMs,
      container: null,
      policy: { default: "ask" },
    });
    for (const bad of [
      null,
      {},
      { hostGraceMs: 1 },
      { unknown: 1 },
      { container: { env: ["A=b"] } },
      { container: {} },
    ]) {
      const response = await send("PUT", `/api/workspaces/${workspace}`, await admin(workspace), bad);
      expect(response.status).toBe(400);
    }
    const response = await send("PUT", `/api/workspaces/${workspace}`, await token({ workspace }), {
      name: "x",
    });
    expect(response.status).toBe(403);
  });

  test("never shows credentials in a repository's address, and audits names of settings only", async () => {
    const workspace = workspaceName();
    const logs = vi.spyOn(console, "log");
    await set(workspace, { name: "sesame of acme", policy: { default: "reject" } });
    const url = "https://user:sesame@git.example/a?key=sesame";
    await runInDurableObject(workspaceStub(workspace), (_, { storage }) => {
      const value = JSON.stringify({ git: { url, ref: "main" } });
      storage.sql.exec("INSERT OR REPLACE INTO setting (name, value) VALUES ('container', ?)", value);
    });
    const { container } = await view(workspace);
    expect(container).toEqual({ git: { url: "https://redacted@git.example/a?redacted", ref: "main" } });
    // Earlier builds recorded the values.
    const detail = { container: JSON.stringify({ git: { url } }), name: "sesame" };
    const old = { kind: "workspace.changed", subject: "someone", workspace, detail } as const;
    await env.TENANT_DO.getByName("acme").recordAct(old);
    const page = await get("/api/audit?limit=1000&kind=workspace.changed", await admin(workspace));
    const { entries } = (await page.json()) as { entries: Json[] };
    expect(entries.filter((entry) => entry.workspace === workspace)).toMatchObject([
      { detail: { settings: "name,policy" } },
      { detail: { settings: "container,name" } },
    ]);
    expect(JSON.stringify([entries, logs.mock.calls])).not.toContain("sesame");
    logs.mockRestore();
  });

  test("shows its hosts, their state and the files, and so does a session", async () => {
    const { workspace, host, sessionId } = await openSession();
    const git = {
      branch: "main",
      head: "abc",
      ahead: 1,
      behind: 0,
      modifiedFiles: ["a.ts"],
      modifiedCount: 1,
    };
    host.tell({ t: "workspace", git });
    host.tell({ t: "load", runs: 1, loadAverage: 0.5, freeMemory: 1000 });
    await vi.waitUntil(async () => (await view(workspace)).git !== null);
    expect(await view(workspace)).toMatchObject({
      root: "/workspace",
      git,
      hosts: [
        {
          name: "h1",
          state: "connected",
          version: "1.2.3",
          linkVersion: HELLO.version,
          node: "v24.0.0",
          platform: "linux x64",
          load: { sessions: 1, runs: 1, capacity: 8, loadAverage: 0.5, freeMemory: 1000 },
          agents: ["scripted"],
        },
      ],
      agents: [{ id: "scripted", default: true, ready: true }],
    });
    expect(await session(workspace, sessionId)).toMatchObject({
      workspaceState: { currentBranch: "main", modifiedFiles: ["a.ts"] },
    });
    await host.leave();
    expect((await view(workspace)).hosts).toMatchObject([
      { name: "h1", state: "gone", agents: ["scripted"] },
    ]);
  });

  test("remembers a host after its own crash, and knows that the host is gone", async () => {
    const { workspace, host } = await openSession();
    await expect(
      runInDurableObject(workspaceStub(workspace), (_, state) => state.abort("crash")),
    ).rejects.toThrow();
    await host.closed;
    expect((await view(workspace)).hosts).toMatchObject([{ name: "h1", state: "gone" }]);
  });

  test("sends a session its policy again if the session could not be reached", async () => {
    const { workspace, sessionId } = await openSession();
    const policy = vi.spyOn(AcpSession.prototype, "setPolicy").mockImplementationOnce(() => {
      throw new Error("out of reach");
    });
    try {
      await set(workspace, { policy: { default: "reject" } });
      expect(await kinds(workspace, sessionId)).not.toContain("permission.policy");
      await runInDurableObject(workspaceStub(workspace), async (instance, { storage }) => {
        storage.sql.exec("UPDATE session_message SET next = 0");
        storage.sql.exec("UPDATE deadline SET at = 0 WHERE name = 'session-messages'");
        await instance.alarm();
      });
      expect(await kinds(workspace, sessionId)).toContain("permission.policy");
      expect(policy).toHaveBeenCalledTimes(2);
    } finally {
      policy.mockRestore();
    }
  });

  test("is listed for the callers that may use it", async () => {
    const [one, two] = [workspaceName(), workspaceName()];
    await set(one, { name: "One" });
    await Host.join(two);
    const list = async (bearer: string, query = "") =>
      (await (await get(`/api/workspaces${query}`, bearer)).json()) as {
        workspaces: Json[];
        nextCursor: string | null;
      };
    await vi.waitUntil(async () => (await list(await token({ workspace: two }))).workspaces.length === 1, {
      timeout: 10_000,
    });
    expect((await list(await token({ workspace: one }))).workspaces).toMatchObject([
      { id: one, name: "One", hosts: 0 },
    ]);
    expect((await list(await token({ workspace: two }))).workspaces).toMatchObject([
      { id: two, root: "/workspace", hosts: 1, defaultAgent: "scripted" },
    ]);
    expect((await list(await token({ workspace: two, tenant: "other" }))).workspaces).toEqual([]);

    const everyone = await token({ workspace: "*" });
    const seen: unknown[] = [];
    for (let cursor: string | null = ""; cursor !== null; ) {
      const query: string = cursor === "" ? "" : `&cursor=${encodeURIComponent(cursor)}`;
      const page = await list(everyone, `?limit=1${query}`);
      seen.push(...page.workspaces.map(({ id }) => id));
      cursor = page.nextCursor;
    }
    expect(seen).toEqual(expect.arrayContaining([one, two]));
    expect(new Set(seen).size).toBe(seen.length);
  });

  test("can be watched as an event stream", async () => {
    const workspace = workspaceName();
    const response = await exports.default.fetch(`https://edge.test/api/workspaces/${workspace}`, {
      headers: { Authorization: `Bearer ${await token({ workspace })}`, Accept: "text/event-stream" },
    });
    expect(response.headers.get("Content-Type")).toContain("text/event-stream");
    const reader = (response.body as ReadableStream<Uint8Array>).getReader();
    const next = async () => {
      const text = new TextDecoder().decode((await reader.read()).value);
      return JSON.parse(text.replace(/^data: /, "")) as Json;
    };
    expect(await next()).toMatchObject({ id: workspace, hosts: [] });
    const host = await Host.join(workspace);
    expect(await next()).toMatchObject({ id: workspace, hosts: [{ name: "h1", state: "connected" }] });
    await host.leave();
    for (;;) if (((await next()).hosts as Json[])[0]?.state === "gone") break;
    await reader.cancel();
  });
});
