import { runInDurableObject } from "cloudflare:test";
import { describe, expect, test } from "vitest";
import type { Caller } from "../../src/protocol/caller.ts";
import { CloseCode } from "../../src/protocol/close-codes.ts";
import { events, get, openSession, prompt, sessionStub, texts, workspaceName } from "./fixtures.ts";
import { setLimits } from "./limits.ts";
import { permissionRequest, updateText } from "./peers/agent.ts";
import { Client } from "./peers/client.ts";
import { Host } from "./peers/host.ts";
import { dialHost, Peer } from "./peers/peer.ts";
import { Resumable } from "./peers/resumable-client.ts";
import { token } from "./tokens.ts";
import { foreign } from "./transfer/fixtures.ts";

function cure(sessionId: string): Promise<void> {
  return runInDurableObject(sessionStub(sessionId), (_, { storage }) => {
    storage.sql.exec("DROP TRIGGER poison");
  });
}

/** Lets SQLite refuse every event whose text contains the word, and returns the running object. */
function poison(sessionId: string, word: string): Promise<unknown> {
  return runInDurableObject(sessionStub(sessionId), (instance, { storage }) => {
    storage.sql.exec(`
      CREATE TRIGGER poison BEFORE INSERT ON log WHEN instr(NEW.heads || NEW.body, '${word}') > 0
      BEGIN SELECT RAISE(ABORT, 'refused'); END`);
    return { instance };
  });
}

async function isSameObject(sessionId: string, before: unknown): Promise<boolean> {
  return runInDurableObject(
    sessionStub(sessionId),
    (instance) => (before as { instance: unknown }).instance === instance,
  );
}

const CALLER: Omit<Caller, "workspaces"> = {
  ...{ tenant: "acme", subject: "someone", expires: Date.now() },
  scopes: ["session:prompt", "permission:answer"],
};

const NEW = '{"id":1,"method":"session/new","params":{"cwd":"/"}}';

/** The request for a session that does not exist yet. */
function openingOf(workspace: string) {
  return {
    ...{ sessionId: crypto.randomUUID(), connection: crypto.randomUUID() },
    ...{ caller: { ...CALLER, workspaces: [workspace] }, workspace, agent: "", subscriptions: {} },
  };
}

async function presentClients(workspace: string, sessionId: string): Promise<unknown> {
  const view = await get(`/api/sessions/${sessionId}`, await token({ workspace }));
  return ((await view.json()) as { clients: unknown }).clients;
}

const FAILED = { code: -32603, message: "Internal error" };

describe("an input that cannot be recorded", () => {
  test("costs its sender an error, and neither the session nor the connection anything", async () => {
    const { client, agent, sessionId, workspace } = await openSession();
    const object = await poison(sessionId, "poison");
    const before = (await events(workspace, sessionId)).length;
    for (let i = 0; i < 3; i += 1) {
      const { response } = await client.request("session/prompt", prompt(sessionId, `poison ${i}`));
      expect(response.error).toEqual(FAILED);
    }
    expect((await events(workspace, sessionId)).length).toBe(before);
    const turn = client.call("session/prompt", prompt(sessionId, "fine"));
    agent.answer(await agent.line(), { stopReason: "end_turn" });
    expect((await client.until(turn)).response.result).toEqual({ stopReason: "end_turn" });
    expect(await isSameObject(sessionId, object)).toBe(true);
  });

  test("does not take the frames with it that came together with it", async () => {
    const { client, agent, sessionId } = await openSession();
    const object = await poison(sessionId, "poison");
    const ids = ["one", "poison", "three"].map((word) => client.call("_vendor/ask", { sessionId, word }));
    const asked = [await agent.line(), await agent.line()];
    expect(asked.map(({ params }) => (params as { word: string }).word)).toEqual(["one", "three"]);
    for (const line of asked) agent.answer(line, {});
    const answers = new Map<unknown, unknown>();
    while (answers.size < 3) {
      const { id, result, error } = await client.takeJson();
      answers.set(id, error ?? result);
    }
    expect(ids.map((id) => answers.get(id))).toEqual([{}, FAILED, {}]);
    expect(await isSameObject(sessionId, object)).toBe(true);
  });

  test("attaches no client", async () => {
    const { client, agent, sessionId, workspace } = await openSession();
    const object = await poison(sessionId, "poison");
    const other = await Client.open(workspace);
    const load = { sessionId, cwd: "/poison", mcpServers: [] };
    expect((await other.request("session/load", load)).response.error).toEqual(FAILED);
    // The client that is attached goes on from where it was, also after a failed attempt to load again.
    expect((await client.request("session/load", load)).response.error).toEqual(FAILED);
    agent.update("after");
    expect(texts([await client.takeJson()])).toEqual(["after"]);
    const loaded = await other.request("session/load", { ...load, cwd: "/" });
    expect(loaded.response.error).toBeUndefined();
    expect(texts(loaded.before)).toEqual(["after"]);
    expect(await isSameObject(sessionId, object)).toBe(true);
  });

  test("delays nothing for a client that could not load again", async () => {
    // The updates are many pages, and the client loads again while it gets the first ones.
    setLimits({ deliverChars: 500 });
    const { client, agent, sessionId, workspace } = await openSession();
    await poison(sessionId, "poison");
    const before = await presentClients(workspace, sessionId);
    const numbers = Array.from({ length: 200 }, (_, i) => String(i));
    agent.items(...numbers.map((text) => updateText(text)));
    const received = texts([await client.takeJson()]);
    const load = client.call("session/load", { sessionId, cwd: "/poison", mcpServers: [] });
    const { response, before: first } = await client.until(load);
    expect(response.error).toEqual(FAILED);
    received.push(...texts(first));
    while (received.length < numbers.length) received.push(...texts([await client.takeJson()]));
    agent.update("last");
    received.push(...texts([await client.takeJson()]));
    expect(received).toEqual([...numbers, "last"]);
    expect(await presentClients(workspace, sessionId)).toEqual(before);
  });

  test("is answered although the reply about its batch was lost", async () => {
    const { client, agent, sessionId, workspace } = await openSession();
    await poison(sessionId, "poison");
    const [{ connection }] = (await presentClients(workspace, sessionId)) as [{ connection: string }];
    const words = ["one", "poison", "three"];
    const batch = {
      ...{ connection, subscriptions: {}, numbers: [1001, 1002, 1003] },
      caller: { ...CALLER, workspaces: [workspace] },
      frames: words.map((word, id) =>
        JSON.stringify({
          jsonrpc: "2.0",
          id: `ask ${id}`,
          method: "_vendor/ask",
          params: { sessionId, word },
        }),
      ),
    };
    // The first reply counts as lost, so the connection repeats the batch.
    await sessionStub(sessionId).receive(batch);
    expect(await sessionStub(sessionId).receive(batch)).toEqual({ ok: true, value: { failed: [] } });
    const errors = (await events(workspace, sessionId)).flatMap(({ payload }) => {
      const { message } = payload as { message?: { id?: unknown; error?: unknown } };
      return message?.error ? [{ id: message.id, error: message.error }] : [];
    });
    expect(errors).toEqual([{ id: "ask 1", error: FAILED }]);
    expect((await client.until("ask 1")).response.error).toEqual(FAILED);
    const asked = [await agent.line(), await agent.line()];
    expect(asked.map(({ params }) => (params as { word: string }).word)).toEqual(["one", "three"]);
  });

  test("gives the agent an error when it is an answer to the agent", async () => {
    const { client, agent, sessionId } = await openSession();
    await poison(sessionId, "poison");
    agent.items(permissionRequest(5));
    const { id } = await client.takeJson();
    const outcome = { outcome: "selected", optionId: "poison" };
    client.send(JSON.stringify({ jsonrpc: "2.0", id, result: { outcome } }));
    expect(await agent.line()).toMatchObject({ id: 5, error: FAILED });
  });

  test("closes the host's socket without a welcome when it is a hello", async () => {
    const { agent, sessionId, workspace } = await openSession();
    const object = await poison(sessionId, agent.run);
    const { run, processRequest, delivered } = agent;
    const link = new Peer(await dialHost(workspace, `/host/sessions/${sessionId}`));
    const hello = { run, processRequest, delivered, agent: "scripted", host: "h1", root: "/workspace" };
    link.send(JSON.stringify({ t: "hello", draining: false, ...hello }));
    const first = await Promise.race([link.take(), link.closed]);
    expect(first).toMatchObject({ code: CloseCode.internalError });
    await cure(sessionId);
    await agent.reconnect();
    agent.update("after");
    await agent.durable();
    expect(await isSameObject(sessionId, object)).toBe(true);
  });

  test("is not repeated by a client that resumes", async () => {
    const { sessionId, workspace } = await openSession();
    await poison(sessionId, "poison");
    const client = await Resumable.open(workspace);
    const answered = await client.request("session/load", { sessionId, cwd: "/poison", mcpServers: [] });
    expect(answered.error).toEqual(FAILED);
    expect((await client.request("session/list", {})).error).toBeUndefined();
  });

  test("becomes an error in the log and in the view when it is an item of the agent, whose other items are taken", async () => {
    const { client, agent, sessionId, workspace } = await openSession();
    const object = await poison(sessionId, "poison");
    // The beginning of the item can be recorded.
    agent.items(...["a", `${"x".repeat(5000)} poison`, "b"].map((text) => updateText(text)));
    await agent.durable();
    const [a, notice, b] = [await client.takeJson(), await client.takeJson(), await client.takeJson()];
    expect(texts([a, b])).toEqual(["a", "b"]);
    const reason = "A message of the agent is missing: it could not be recorded";
    const _meta = { "acp-edge/event": "agent.violation", "acp-edge/message": reason };
    expect(notice).toMatchObject({ params: { sessionId, update: { _meta } } });
    const errors = (await events(workspace, sessionId)).filter(({ kind }) => kind === "error");
    expect(errors).toHaveLength(1);
    expect(errors[0]).toMatchObject({
      source: "host",
      payload: { origin: "gateway", detailCode: "item_skipped", item: 6, message: expect.any(String) },
    });
    const view = await get(`/api/sessions/${sessionId}`, await token({ workspace }));
    expect(await view.json()).toMatchObject({ lastError: expect.stringContaining("Item 6") });
    expect(await isSameObject(sessionId, object)).toBe(true);
  });

  test("gives the agent an error when it is a request of the agent", async () => {
    const { client, agent, sessionId } = await openSession();
    await poison(sessionId, "poison");
    const path = `/${"x".repeat(100)}/poison`;
    agent.items(
      JSON.stringify({ jsonrpc: "2.0", id: 5, method: "_vendor/ask", params: { path } }),
      // The id comes last.
      JSON.stringify({ jsonrpc: "2.0", method: "_vendor/ask", params: { path }, id: "six" }),
    );
    expect(await agent.line()).toMatchObject({ id: 5, error: { code: -32603 } });
    expect(await agent.line()).toMatchObject({ id: "six", error: { code: -32603 } });
    agent.update("after");
    expect(texts([await client.takeJson()])).toEqual(["after"]);
  });

  test("ends the turn with an error when it is the agent's answer to the prompt", async () => {
    const { client, agent, sessionId, workspace } = await openSession();
    await poison(sessionId, "poison");
    const turn = client.call("session/prompt", prompt(sessionId, "go"));
    agent.answer(await agent.line(), { stopReason: "end_turn", _meta: { text: "poison" } });
    expect((await client.until(turn)).response.error).toMatchObject({ code: -32603 });
    const view = await get(`/api/sessions/${sessionId}`, await token({ workspace }));
    expect(await view.json()).toMatchObject({ turn: null, lastError: expect.stringContaining("skipped") });
  });

  test("ends the process when it is the report of its end, and the answer to a file request is an error", async () => {
    const { agent, sessionId, workspace } = await openSession();
    await poison(sessionId, "poison");
    const read = { sessionId: "agent-session", path: "/workspace/a" };
    agent.items(JSON.stringify({ jsonrpc: "2.0", id: 7, method: "fs/read_text_file", params: read }));
    const content = JSON.stringify({ jsonrpc: "2.0", id: 7, result: { content: "poison" } });
    agent.items(JSON.stringify(["answer", content]));
    expect(await agent.line()).toMatchObject({ id: 7, error: { code: -32603 } });
    agent.items(JSON.stringify(["exit", { code: 3, signal: null, stderr: "poison" }]));
    await agent.durable();
    const stopped = (await events(workspace, sessionId)).find(({ kind }) => kind === "queue.owner.stopped");
    expect(stopped).toMatchObject({ payload: { code: 3, stderr: "" } });
    const view = await get(`/api/sessions/${sessionId}`, await token({ workspace }));
    expect(await view.json()).toMatchObject({ agentStatus: "gone", pendingRequests: [] });
  });

  test("leaves nothing behind when it would have made a session", async () => {
    const { workspace } = await openSession();
    const { sessionId, ...order } = openingOf(workspace);
    await runInDurableObject(sessionStub(sessionId), async (instance, { storage }) => {
      await expect(instance.open({ ...order, sessionId, raw: "{" })).rejects.toThrow();
      const tables = storage.sql.exec("SELECT name FROM sqlite_master WHERE name IN ('log', 'client')");
      expect(tables.toArray()).toEqual([]);
      await instance.open({ ...order, sessionId, raw: NEW });
    });
    expect(await events(workspace, sessionId)).not.toHaveLength(0);
  });

  test("leaves nothing behind when it would have imported a session", async () => {
    const { workspace } = await openSession();
    const { sessionId, ...order } = openingOf(workspace);
    const { caller } = order;
    const imported = { caller, workspace, agent: null, defaultAgent: "", cwd: null } as const;
    await runInDurableObject(sessionStub(sessionId), async (instance, { storage }) => {
      const begun = instance.import({ ...imported, sessionId, recordId: sessionId, format: "acpx" });
      if (!begun.ok) throw new Error("not begun");
      storage.sql.exec(`
        CREATE TRIGGER poison BEFORE INSERT ON log WHEN instr(NEW.heads || NEW.body, 'session.imported') > 0
        BEGIN SELECT RAISE(ABORT, 'refused'); END`);
      begun.value.write("events", new TextEncoder().encode(`${foreign(sessionId, 1)}\n`));
      expect(() => begun.value.finish(1)).toThrow(/refused/);
      await begun.value.abort();
      await instance.open({ ...order, sessionId, raw: NEW });
    });
    expect((await events(workspace, sessionId)).map(({ kind }) => kind)).not.toContain("vendor.thing");
  });
});

describe("an effect that fails", () => {
  test("undoes no session whose process request has left", async () => {
    const workspace = workspaceName();
    const host = await Host.join(workspace);
    const { sessionId, ...order } = openingOf(workspace);
    await runInDurableObject(sessionStub(sessionId), async (instance, { storage }) => {
      storage.sql.exec(`
        CREATE TABLE deadline (name TEXT PRIMARY KEY, at INTEGER NOT NULL);
        CREATE TRIGGER poison BEFORE INSERT ON deadline WHEN NEW.name = 'index'
        BEGIN SELECT RAISE(ABORT, 'refused'); END`);
      expect(await instance.open({ ...order, sessionId, raw: NEW })).toMatchObject({ ok: true });
    });
    const agent = await host.agent();
    expect(agent.sessionId).toBe(sessionId);
    expect(await agent.line()).toMatchObject({ method: "session/new" });
  });
});
