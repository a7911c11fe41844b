import {
  evictAllDurableObjects,
  evictDurableObject,
  listDurableObjectIds,
  runInDurableObject,
} from "cloudflare:test";
import { env } from "cloudflare:workers";
import { describe, expect, test, vi } from "vitest";
import {
  events,
  eventsText,
  get,
  openSession,
  prompt,
  sessionStub,
  texts,
  workspaceName,
} from "./fixtures.ts";
import { Agent, updateText } from "./peers/agent.ts";
import { Client } from "./peers/client.ts";
import { Host } from "./peers/host.ts";
import { dialHost, Peer } from "./peers/peer.ts";
import { token } from "./tokens.ts";

describe("a turn", () => {
  test("[I5] travels to the agent and back in each side's own ids", async () => {
    const { client, agent, sessionId } = await openSession();
    const id = client.call("session/prompt", prompt(sessionId));
    const request = await agent.line();
    expect(request).toMatchObject({
      method: "session/prompt",
      params: { sessionId: "agent-session", prompt: [{ type: "text", text: "go" }] },
    });
    agent.update("one");
    agent.update("two");
    agent.answer(request, { stopReason: "end_turn" });
    const { response, before } = await client.until(id);
    expect(response).toEqual({ jsonrpc: "2.0", id, result: { stopReason: "end_turn" } });
    expect(texts(before)).toEqual(["one", "two"]);
    expect(before.map((m) => (m.params as { sessionId: string }).sessionId)).toEqual([sessionId, sessionId]);
  });

  test("gives the agent the workspace's directory instead of the editor's", async () => {
    const workspace = workspaceName();
    const host = await Host.join(workspace);
    const client = await Client.open(workspace);
    client.call("session/new", { cwd: "/home/me/project", mcpServers: [], _meta: { keep: 1 } });
    const agent = await host.agent();
    expect(await agent.openSession()).toMatchObject({
      method: "session/new",
      params: { cwd: "/workspace", mcpServers: [], _meta: { keep: 1 } },
    });
  });

  test("[I2] is preserved byte for byte in the log and on the way to the client", async () => {
    const { client, agent, sessionId, workspace } = await openSession();
    const odd = `{"params":{"update":{"z":12345678901234567890,"a":1.0,"u":"\\u00e9\\ud83d","x":null},"sessionId":"agent-session","_meta":{"b":1,"a":2}},"method":"session/update","jsonrpc":"2.0"}`;
    agent.items(odd);
    expect(await client.take()).toBe(odd.replace("agent-session", sessionId));
    const log = await eventsText(workspace, sessionId);
    expect(log).toContain(`"payload":{"direction":"in","message":${odd}}`);
  });

  test("waits in the queue when another is running, and both end in order", async () => {
    const { client, agent, sessionId, workspace } = await openSession();
    const first = client.call("session/prompt", prompt(sessionId, "1"));
    const second = client.call("session/prompt", prompt(sessionId, "2"));
    client.notify("_mark", { sessionId });
    const one = await agent.line();
    // The line after the second prompt has arrived; the prompt itself waits for the first turn.
    expect((await agent.line()).method).toBe("_mark");
    agent.answer(one, { stopReason: "end_turn" });
    await client.until(first);
    const two = await agent.line();
    expect(two.params).toMatchObject({ prompt: [{ text: "2" }] });
    agent.answer(two, { stopReason: "end_turn" });
    await client.until(second);
    const kinds = (await events(workspace, sessionId))
      .map((e) => e.kind)
      .filter((k) => /^(turn|queue)\.(?!owner)/.test(k as string));
    expect(kinds).toEqual([
      "turn.started",
      "queue.enqueued",
      "turn.completed",
      "queue.dequeued",
      "turn.started",
      "turn.completed",
    ]);
  });

  test("is cancelled with the prompts behind it and its open permission requests", async () => {
    const { client, agent, sessionId } = await openSession();
    const first = client.call("session/prompt", prompt(sessionId, "1"));
    const one = await agent.line();
    const second = client.call("session/prompt", prompt(sessionId, "2"));
    agent.items(
      '{"jsonrpc":"2.0","id":"p-1","method":"session/request_permission","params":{"sessionId":"agent-session","toolCall":{"toolCallId":"t"},"options":[]}}',
    );
    expect(await client.takeJson()).toMatchObject({
      method: "session/request_permission",
      params: { sessionId },
    });
    client.notify("session/cancel", { sessionId });
    expect((await client.until(second)).response.result).toEqual({ stopReason: "cancelled" });
    expect(await agent.line()).toMatchObject({
      method: "session/cancel",
      params: { sessionId: "agent-session" },
    });
    expect(await agent.line()).toEqual({
      jsonrpc: "2.0",
      id: "p-1",
      result: { outcome: { outcome: "cancelled" } },
    });
    agent.answer(one, { stopReason: "cancelled" });
    expect((await client.until(first)).response.result).toEqual({ stopReason: "cancelled" });
  });

  test("[I5] names a cancelled request by the agent's own id", async () => {
    const { client, agent, sessionId } = await openSession();
    const id = client.call("_vendor/slow", { sessionId });
    const request = await agent.line();
    client.notify("$/cancel_request", { requestId: id });
    expect(await agent.line()).toEqual({
      jsonrpc: "2.0",
      method: "$/cancel_request",
      params: { requestId: request.id },
    });
  });
});

describe("a request of the agent", () => {
  test("[I5] is answered under the agent's own id, whatever its type", async () => {
    const { client, agent } = await openSession();
    for (const id of ["0", '"b0a7"', "12345678901234567890", "null"]) {
      agent.items(`{"jsonrpc":"2.0","method":"_ask","params":{"q":1},"id":${id}}`);
      const asked = await client.takeJson();
      client.send(JSON.stringify({ jsonrpc: "2.0", id: asked.id, result: { ok: true } }));
      agent.update(`after ${id}`);
      await client.takeJson();
    }
    const answers = [await agent.line(), await agent.line(), await agent.line(), await agent.line()];
    expect(answers.map((a) => a.result)).toEqual(Array(4).fill({ ok: true }));
    expect(answers[1]?.id).toBe("b0a7");
  });

  test("is answered once: a second answer goes nowhere", async () => {
    const { client, agent, sessionId, workspace } = await openSession();
    agent.items('{"jsonrpc":"2.0","method":"_ask","id":5}');
    const { id } = await client.takeJson();
    client.send(JSON.stringify({ jsonrpc: "2.0", id, result: 1 }));
    client.send(JSON.stringify({ jsonrpc: "2.0", id, result: 2 }));
    client.notify("_after", { sessionId });
    expect((await agent.line()).result).toBe(1);
    expect((await agent.line()).method).toBe("_after");
    const log = await events(workspace, sessionId);
    expect(log.filter((e) => (e.payload as { stop?: string }).stop === "stray")).toHaveLength(1);
  });

  test("[I1] for files is answered by the host through the log, and no client sees it", async () => {
    const { client, agent, sessionId, workspace } = await openSession();
    agent.items(
      '{"jsonrpc":"2.0","id":0,"method":"fs/read_text_file","params":{"sessionId":"agent-session","path":"/workspace/a"}}',
    );
    agent.items(JSON.stringify(["answer", '{"jsonrpc":"2.0","id":0,"result":{"content":"x"}}']));
    expect(await agent.line()).toEqual({ jsonrpc: "2.0", id: 0, result: { content: "x" } });
    agent.update("next");
    expect(texts([await client.takeJson()])).toEqual(["next"]);
    expect((await events(workspace, sessionId)).map((e) => e.kind)).toContain("client.fs.read");
  });
});

describe("an eviction", () => {
  test("[I9] at rest or between the frames of a turn changes nothing a client can see", async () => {
    const { client, agent, sessionId, workspace } = await openSession();
    const session = sessionStub(sessionId);
    await evictAllDurableObjects();
    const id = client.call("session/prompt", prompt(sessionId));
    const request = await agent.line();
    for (let i = 0; i < 6; i += 1) {
      if (i % 2 === 0) await evictAllDurableObjects();
      else await evictDurableObject(session);
      agent.update(`chunk ${i}`);
      await agent.durable();
    }
    agent.items('{"jsonrpc":"2.0","id":0,"method":"_ask","params":{}}');
    await agent.durable();
    await evictAllDurableObjects();
    const asked: Record<string, unknown>[] = [];
    while (asked.at(-1)?.method !== "_ask") asked.push(await client.takeJson());
    expect(texts(asked)).toEqual(["chunk 0", "chunk 1", "chunk 2", "chunk 3", "chunk 4", "chunk 5"]);
    await evictAllDurableObjects();
    client.send(JSON.stringify({ jsonrpc: "2.0", id: asked.at(-1)?.id, result: "yes" }));
    expect((await agent.line()).result).toBe("yes");
    await evictAllDurableObjects();
    agent.answer(request, { stopReason: "end_turn" });
    await agent.durable();
    await evictAllDurableObjects();
    const { response, before } = await client.until(id);
    expect(response.result).toEqual({ stopReason: "end_turn" });
    expect(before).toEqual([]);
    const seqs = (await events(workspace, sessionId)).map((e) => e.seq);
    expect(seqs).toEqual(seqs.map((_, i) => i + 1));
  });

  test("[I9] while a slow client catches up loses and repeats nothing", async () => {
    const { client, agent, sessionId } = await openSession();
    const sent: string[] = [];
    for (let i = 0; i < 40; i += 1) {
      const items = Array.from({ length: 25 }, (_, k) => `${i}.${k}`);
      sent.push(...items);
      agent.items(...items.map((text) => updateText(text)));
      if (i % 10 !== 3) continue;
      await agent.durable();
      await evictDurableObject(sessionStub(sessionId));
    }
    const got: string[] = [];
    while (got.length < sent.length) got.push(...texts([await client.takeJson()]));
    expect(got).toEqual(sent);
  });
});

describe("the host's link", () => {
  test("[I6] takes each item once, however often it is sent", async () => {
    const { client, agent } = await openSession();
    agent.update("a");
    agent.update("b");
    agent.sendFrom(4);
    agent.sendFrom(1);
    agent.update("c");
    const got = [await client.takeJson(), await client.takeJson(), await client.takeJson()];
    expect(texts(got)).toEqual(["a", "b", "c"]);
  });

  test("[I6] continues after a lost socket where the other side stopped", async () => {
    const { client, agent, sessionId, workspace } = await openSession();
    const id = client.call("session/prompt", prompt(sessionId));
    const request = await agent.line();
    agent.update("before");
    await agent.durable();
    await agent.reconnect();
    expect(agent.acknowledged).toBe(5);
    agent.update("after");
    agent.answer(request, { stopReason: "end_turn" });
    const { before } = await client.until(id);
    expect(texts(before)).toEqual(["before", "after"]);
    const kinds = (await events(workspace, sessionId)).map((e) => e.kind);
    expect(kinds.filter((k) => k === "runtime.connected")).toHaveLength(1);
    expect(kinds).toContain("runtime.disconnected");
    expect(kinds).toContain("runtime.reconnected");
  });

  test("[I6] sends a line again when the host does not have it", async () => {
    const { client, agent, sessionId } = await openSession();
    client.notify("_one", { sessionId });
    expect((await agent.line()).method).toBe("_one");
    client.notify("_two", { sessionId });
    client.notify("_three", { sessionId });
    await agent.arrived(2);
    // Both lines were sent, but the host lost them with the socket before the agent got them.
    await agent.reconnect();
    expect([(await agent.line()).method, (await agent.line()).method]).toEqual(["_two", "_three"]);
  });

  test("is closed when items are missing", async () => {
    const { agent } = await openSession();
    agent.link.send('{"t":"lines","first":99}\n{}');
    expect((await agent.link.closed).code).toBe(4400);
  });

  test("refuses a process that does not belong to the session", async () => {
    const { workspace, sessionId } = await openSession();
    const link = new Peer(await dialHost(workspace, `/host/sessions/${sessionId}`));
    link.send(
      JSON.stringify({
        t: "hello",
        run: "stranger",
        agent: "scripted",
        host: "h1",
        root: "/workspace",
        processRequest: 1,
        delivered: 0,
        draining: false,
      }),
    );
    expect((await link.closed).code).toBe(4409);
  });

  test("is unknown to a host of another workspace", async () => {
    const { sessionId } = await openSession();
    await expect(dialHost("other", `/host/sessions/${sessionId}`)).rejects.toThrow("404");
  });
});

describe("an agent that ends", () => {
  test("fails the turn with its last output, and the next prompt gets a new process", async () => {
    const { client, agent, host, sessionId, workspace } = await openSession();
    const id = client.call("session/prompt", prompt(sessionId));
    await agent.line();
    agent.items(JSON.stringify(["exit", { code: 7, signal: null, stderr: "out of luck" }]));
    const { response } = await client.until(id);
    expect(response.error).toMatchObject({
      code: -32603,
      message: expect.stringContaining("exit code 7"),
      data: { stderr: "out of luck" },
    });
    const again = client.call("session/prompt", prompt(sessionId, "again"));
    const next = await host.agent();
    expect((await next.openSession()).method).toBe("session/new");
    const request = await next.line();
    expect(request.params).toMatchObject({ prompt: [{ text: "again" }] });
    next.answer(request, { stopReason: "end_turn" });
    expect((await client.until(again)).response.result).toEqual({ stopReason: "end_turn" });
    expect((await events(workspace, sessionId)).map((e) => e.kind)).toContain("session.rebound");
  });

  test("gives the client a clear error when it had not opened the session yet", async () => {
    const workspace = workspaceName();
    const host = await Host.join(workspace);
    const client = await Client.open(workspace);
    const id = client.call("session/new", { cwd: "/", mcpServers: [] });
    const { sessionId, processRequest } = await host.order();
    const agent = await Agent.start(workspace, sessionId, { host: host.name, processRequest });
    agent.items(JSON.stringify(["exit", { code: 3, signal: null, stderr: "no key" }]));
    expect((await client.until(id)).response.error).toMatchObject({
      message: expect.stringContaining("exit code 3"),
      data: { stderr: "no key" },
    });
  });

  test("is reported as ended when its host comes back without it", async () => {
    const { client, agent, host, sessionId, workspace } = await openSession();
    const id = client.call("session/prompt", prompt(sessionId));
    await agent.line();
    await host.leave();
    await Host.join(workspace);
    expect((await client.until(id)).response.error).toMatchObject({ data: { outcome: "unknown" } });
  });

  test("is kept when only the host's sockets were lost", async () => {
    const { client, agent, host, sessionId, workspace } = await openSession();
    const id = client.call("session/prompt", prompt(sessionId));
    const request = await agent.line();
    await Host.join(workspace, { runs: [{ sessionId, run: agent.run }], instance: host.instance });
    agent.answer(request, { stopReason: "end_turn" });
    expect((await client.until(id)).response.result).toEqual({ stopReason: "end_turn" });
  });
});

describe("a session without a host", () => {
  test("is opened when a host joins", async () => {
    const workspace = workspaceName();
    const client = await Client.open(workspace, "&agent=scripted");
    const opening = client.newSession();
    const agent = await (await Host.join(workspace)).agent();
    await agent.openSession();
    expect(await opening).toBe(agent.sessionId);
  });

  test("tells the client when no host came in time", async () => {
    const workspace = workspaceName();
    const client = await Client.open(workspace, "&agent=scripted");
    const known = await sessionIds();
    const id = client.call("session/new", { cwd: "/", mcpServers: [] });
    const [opened] = await vi.waitUntil(async () => {
      const added = (await listDurableObjectIds(env.ACP_SESSION_DO)).filter((one) => !known.has(String(one)));
      return added.length > 0 && added;
    });
    const session = env.ACP_SESSION_DO.get(opened as DurableObjectId);
    // An early alarm decides nothing; a due alarm decides once.
    await runInDurableObject(session, (instance) => instance.alarm());
    await runInDurableObject(
      session,
      (_, state) => void state.storage.sql.exec("UPDATE deadline SET at = 0"),
    );
    await runInDurableObject(session, (instance) => instance.alarm());
    await runInDurableObject(session, (instance) => instance.alarm());
    const { response, before } = await client.until(id);
    expect(response.error).toMatchObject({ code: -32603, message: expect.stringContaining("No host") });
    expect(before).toEqual([]);
  });
});

async function sessionIds(): Promise<Set<string>> {
  return new Set((await listDurableObjectIds(env.ACP_SESSION_DO)).map(String));
}

describe("an unknown session", () => {
  test("[I12] is an error with its id, and leaves no trace", async () => {
    const { client } = await openSession();
    const unknown = crypto.randomUUID();
    const { response } = await client.request("session/prompt", prompt(unknown));
    expect(response.error).toEqual({
      code: -32002,
      message: "Unknown session",
      data: { sessionId: unknown, details: "Session not found" },
    });
    const tables = await runInDurableObject(sessionStub(unknown), (_, state) =>
      state.storage.sql.exec("SELECT name FROM sqlite_master").toArray(),
    );
    expect(tables).toEqual([]);
  });

  test("looks like another tenant's session", async () => {
    const { sessionId, workspace } = await openSession();
    const stranger = await token({ workspace, tenant: "other" });
    for (const path of ["", "/events"]) {
      const [theirs, nobodys] = await Promise.all([
        get(`/api/sessions/${sessionId}${path}`, stranger),
        get(`/api/sessions/${crypto.randomUUID()}${path}`, stranger),
      ]);
      expect(theirs.status).toBe(404);
      expect(await theirs.text()).toBe(await nobodys.text());
    }
  });
});

describe("the log", () => {
  test("[I8] writes far fewer rows than frames", async () => {
    const { client, agent, sessionId } = await openSession();
    const id = client.call("session/prompt", prompt(sessionId));
    const request = await agent.line();
    for (let i = 0; i < 10; i += 1)
      agent.items(...Array.from({ length: 100 }, (_, k) => updateText(`${i * 100 + k}`)));
    agent.answer(request, { stopReason: "end_turn" });
    const { before } = await client.until(id);
    expect(texts(before)).toEqual(Array.from({ length: 1000 }, (_, i) => String(i)));
    const rows = await runInDurableObject(
      sessionStub(sessionId),
      (_, state) => state.storage.sql.exec<{ n: number }>("SELECT count(*) AS n FROM log").one().n,
    );
    expect(rows).toBeLessThan(40);
  });

  test("can be read in pages that add up to the whole", async () => {
    const { agent, sessionId, workspace } = await openSession();
    for (let i = 0; i < 5; i += 1)
      agent.items(...Array.from({ length: 7 }, (_, k) => updateText(`${i}.${k}`)));
    await agent.durable();
    const whole = await events(workspace, sessionId);
    const paged: unknown[] = [];
    for (let after = 0; after < whole.length; after = paged.length)
      paged.push(...(await events(workspace, sessionId, `?after=${after}&limit=4`)));
    expect(paged).toEqual(whole);
    expect(whole.map((e) => e.seq)).toEqual(whole.map((_, i) => i + 1));
    expect(new Set(whole.map((e) => e.eventId)).size).toBe(whole.length);
  });

  test("[I4] folds to the same state when every snapshot is deleted and the log replayed", async () => {
    const { client, agent, sessionId, workspace } = await openSession();
    const id = client.call("session/prompt", prompt(sessionId));
    const request = await agent.line();
    for (let i = 0; i < 12; i += 1)
      agent.items(...Array.from({ length: 100 }, (_, k) => updateText(`${i}.${k}`)));
    agent.answer(request, { stopReason: "end_turn" });
    await client.until(id);
    const session = sessionStub(sessionId);
    const bearer = await token({ workspace });
    const before = await (await get(`/api/sessions/${sessionId}`, bearer)).text();
    const snapshots = await runInDurableObject(
      session,
      (_, state) => state.storage.sql.exec("SELECT seq FROM snapshot").toArray().length,
    );
    expect(snapshots).toBe(1);
    await runInDurableObject(session, (_, state) => void state.storage.sql.exec("DELETE FROM snapshot"));
    await evictDurableObject(session);
    expect(await (await get(`/api/sessions/${sessionId}`, bearer)).text()).toBe(before);
    await runInDurableObject(
      session,
      (_, state) =>
        void state.storage.sql.exec("INSERT OR REPLACE INTO snapshot VALUES (1, 9, '{\"half\":')"),
    );
    await evictDurableObject(session);
    expect(await (await get(`/api/sessions/${sessionId}`, bearer)).text()).toBe(before);
  });
});
