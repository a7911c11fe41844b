import { evictDurableObject, runInDurableObject } from "cloudflare:test";
import { env, exports } from "cloudflare:workers";
import { packTar } from "modern-tar";
import { afterEach, describe, expect, test, vi } from "vitest";
import { DEFAULT_LIMITS, readLimits } from "../../../src/protocol/limits.ts";
import { limitOf } from "../../../src/tenant/allowance.ts";
import * as container from "../../fixtures/dialects/container-data-model.ts";
import * as webGateway from "../../fixtures/dialects/web-gateway.ts";
import { get, openSession, prompt, sessionStub } from "../fixtures.ts";
import { setLimits, setLimitsOf } from "../limits.ts";
import { permissionRequest } from "../peers/agent.ts";
import { HttpPeer, INITIALIZE, JSON_TYPE, request } from "../peers/http-client.ts";
import { CONTROLLER, token } from "../tokens.ts";
import { asking, codeOf, connect, given, held, NOWHERE, open, REFUSED, TAKEN, user } from "./fixtures.ts";

afterEach(() => {
  vi.useRealTimers();
});

/** A notification of exactly this length. */
function notification(chars: number, params: object = {}): string {
  const text = (pad: string) =>
    JSON.stringify({ jsonrpc: "2.0", method: "_note", params: { ...params, pad } });
  return text("x".repeat(chars - text("").length));
}

describe("the characters of an hour", () => {
  test("are counted exactly", async () => {
    setLimits({ charsPerHour: 64_000 });
    const someone = await user();
    const { client } = await connect(someone);
    const rest = limitOf(readLimits(env.LIMITS), "chars") - INITIALIZE.length;
    client.send(INITIALIZE);
    await client.until("i");
    client.send(asking(rest - 1000, 1));
    expect(codeOf((await client.until(1)).response)).toBe(-32601);
    client.send(asking(1001, 2));
    const { response } = await client.until(2);
    expect(response.error).toMatchObject({
      code: REFUSED,
      message: "One user may send 64000 characters an hour",
      data: { retryAfterMs: expect.any(Number) },
    });
    client.send(asking(1000, 3));
    expect(codeOf((await client.until(3)).response)).toBe(-32601);
    client.send(asking(100, 4));
    expect(codeOf((await client.until(4)).response)).toBe(REFUSED);
    expect(await given(someone, "chars")).toBe(limitOf(readLimits(env.LIMITS), "chars"));
  });

  test("include text that is no message", async () => {
    setLimits({ charsPerHour: 64_000 });
    const someone = await user();
    const { client } = await open(someone);
    client.send("x".repeat(50_000));
    expect(await client.takeJson()).toMatchObject({ error: { code: -32700 } });
    client.send("x".repeat(20_000));
    expect(await client.closed).toEqual({ code: 1008, reason: "quota exceeded" });
  });

  test("keep a reserve for cancels and answers, and for nothing else", async () => {
    const { client, agent, sessionId, workspace } = await openSession();
    const turn = client.call("session/prompt", prompt(sessionId, "go"));
    const asked = await agent.line();
    await setLimitsOf("acme", { charsPerHour: 64_000 });
    const sub = crypto.randomUUID();
    const someone = await user({ tenant: "acme", sub, workspaces: [workspace] });
    const { client: mine, object } = await open(someone);
    await mine.request("session/resume", { sessionId, cwd: "/", mcpServers: [] });
    agent.items(permissionRequest(1));
    let question = await mine.takeJson();
    while (question.method !== "session/request_permission") question = await mine.takeJson();
    // The message is one character longer than the rest of the quota.
    const used = await given(someone, "chars", sub);
    const left = await held(object);
    mine.send(asking(limitOf(readLimits(env.LIMITS), "chars") - used + left, 1));
    expect(codeOf((await mine.until(1)).response)).toBe(-32601);
    mine.send(asking(100, 2));
    expect(codeOf((await mine.until(2)).response)).toBe(REFUSED);
    const outcome = { outcome: "selected", optionId: "yes" };
    mine.send(JSON.stringify({ jsonrpc: "2.0", id: question.id, result: { outcome } }));
    expect(await agent.line()).toMatchObject({ id: 1, result: { outcome } });
    mine.notify("session/cancel", { sessionId });
    expect(await agent.line()).toMatchObject({ method: "session/cancel" });
    agent.answer(asked, { stopReason: "cancelled" });
    expect((await client.until(turn)).response.result).toEqual({ stopReason: "cancelled" });
    // The reserve is a thousand characters and ends too.
    for (let i = 0; i < 5; i += 1) mine.send(notification(200, { sessionId }));
    expect(await mine.closed).toEqual({ code: 1008, reason: "quota exceeded" });
    expect(await given(someone, "reserve", sub)).toBeLessThanOrEqual(
      limitOf(readLimits(env.LIMITS), "reserve"),
    );
  });

  test("keep no reserve for long answers", async () => {
    setLimits({ charsPerHour: 640_000 });
    const { client } = await open(await user());
    client.send(asking(limitOf(readLimits(env.LIMITS), "chars") - 5000, 1));
    await client.until(1);
    client.send(notification(DEFAULT_LIMITS.smallChars + 1000));
    expect(await client.closed).toEqual({ code: 1008, reason: "quota exceeded" });
  });
});

describe("a quota over HTTP", () => {
  test("answers a request with the error, and refuses any other message before taking it", async () => {
    setLimits({ promptsPerHour: 2, charsPerHour: 64_000, smallChars: 100 });
    const someone = await user();
    const response = await request("POST", someone.bearer, JSON_TYPE, INITIALIZE);
    const id = response.headers.get("Acp-Connection-Id") as string;
    const peer = new HttpPeer(someone.bearer, id, {});
    const stream = await peer.stream(NOWHERE);
    const own = await peer.stream();
    const codes: unknown[] = [];
    for (let n = 0; n < 3; n += 1) {
      const asked = await peer.call("session/prompt", prompt(NOWHERE));
      codes.push(
        codeOf(((await stream.until(asked)).at(-1) as { message: Record<string, unknown> }).message),
      );
    }
    expect(codes).toEqual([TAKEN, TAKEN, REFUSED]);
    expect((await peer.post(asking(50_000, "a"))).status).toBe(202);
    expect((await own.take()).error).toMatchObject({ code: -32601 });
    const refused = await peer.post(notification(20_000));
    expect([refused.status, await refused.text()]).toEqual([
      429,
      "One user may send 64000 characters an hour",
    ]);
    expect(Number(refused.headers.get("Retry-After"))).toBeGreaterThan(0);
    expect(Number(refused.headers.get("Retry-After"))).toBeLessThanOrEqual(3600);
    await evictDurableObject(env.ACP_CONNECTION_DO.getByName(id));
    expect((await peer.post(asking(20_000, "b"))).status).toBe(202);
    expect((await own.take()).error).toMatchObject({ code: REFUSED });
    await Promise.all([stream.cancel(), own.cancel()]);
    await peer.delete();
  });

  test("gets back the unused allowance when the connection ends", async () => {
    setLimits({ promptsPerHour: 1000 });
    const someone = await user();
    const response = await request("POST", someone.bearer, JSON_TYPE, INITIALIZE);
    const peer = new HttpPeer(someone.bearer, response.headers.get("Acp-Connection-Id") as string, {});
    await peer.call("session/prompt", prompt(NOWHERE));
    expect(await given(someone, "prompts")).toBeGreaterThan(1);
    await peer.delete();
    expect(await given(someone, "prompts")).toBe(1);
    expect(await given(someone, "chars")).toBeLessThan(1000);
  });
});

describe("a client of a dialect", () => {
  test.each([
    ["the container data model", "/acp", container.initialize, container.prompt, "session-abc123"],
    ["the web gateway", "/agent/ws", webGateway.initialize, webGateway.prompt, "session-uuid"],
  ])("(%s) is counted like any client", async (_, path, initialize, asking, name) => {
    setLimits({ promptsPerHour: 2 });
    const { client } = await connect(await user(), "", path);
    client.send(initialize);
    await client.until((JSON.parse(initialize) as { id: unknown }).id);
    const codes: number[] = [];
    for (let n = 0; n < 3; n += 1) {
      client.send(asking.replaceAll(name, NOWHERE));
      codes.push(codeOf((await client.until((JSON.parse(asking) as { id: unknown }).id)).response));
    }
    expect(codes).toEqual([TAKEN, TAKEN, REFUSED]);
  });

  test("may answer a permission request after it has used up its quota", async () => {
    setLimits({ charsPerHour: 64_000 });
    const { client } = await connect(await user(), "", "/agent/ws");
    client.send(webGateway.initialize);
    await client.until((JSON.parse(webGateway.initialize) as { id: unknown }).id);
    let code = 0;
    for (let n = 0; code !== REFUSED; n += 1) {
      client.send(asking(3000, n));
      code = codeOf((await client.until(n)).response);
    }
    const answer = { requestId: `${NOWHERE}:1`, response: "allow_once" };
    const { response } = await client.request("session/respond_to_permission", answer);
    expect(codeOf(response)).toBe(TAKEN);
  });
});

describe("an import", () => {
  const upload = (bearer: string, body: BodyInit, type = "application/x-tar", query = "") =>
    exports.default.fetch(`https://edge.test/api/sessions/import${query}`, {
      method: "POST",
      headers: { Authorization: `Bearer ${bearer}`, "Content-Type": type },
      body,
    });

  async function archived() {
    const { client, agent, sessionId, workspace } = await openSession();
    for (let n = 0; n < 50; n += 1) agent.update("x".repeat(1000));
    await agent.durable();
    client.socket.close(1000);
    const bearer = await token({ workspace });
    const tar = await (await get(`/api/sessions/${sessionId}/export`, bearer)).arrayBuffer();
    return { tar, sessionId };
  }

  test("counts by its bytes, and leaves nothing behind when it is too long", async () => {
    const { tar, sessionId } = await archived();
    setLimits({ charsPerHour: 2 * tar.byteLength, importChunkBytes: 4096 });
    const someone = await user({ scopes: CONTROLLER });
    const first = await upload(someone.bearer, tar);
    expect(first.status).toBe(201);
    expect(await given(someone, "chars")).toBe(tar.byteLength);
    const pieces = new ReadableStream<Uint8Array>({
      start(controller) {
        for (let at = 0; at < tar.byteLength; at += 4096)
          controller.enqueue(new Uint8Array(tar.slice(at, at + 4096)));
        controller.close();
      },
    });
    const other = await user({ tenant: someone.tenant, scopes: CONTROLLER });
    const second = await upload(other.bearer, pieces, "application/x-tar", "?as=new");
    expect(second.status).toBe(429);
    expect(await second.json()).toMatchObject({ error: { code: "too_many_requests" } });
    expect(Number(second.headers.get("Retry-After"))).toBeGreaterThan(0);
    expect(await given(someone, "chars")).toBeLessThanOrEqual(limitOf(readLimits(env.LIMITS), "chars"));
    const imported = await get(`/api/sessions/${sessionId}`, someone.bearer);
    expect(imported.status).toBe(200);
  });

  test("leaves nothing under its own id when the quota cuts it short", async () => {
    const { tar, sessionId } = await archived();
    setLimits({ charsPerHour: Math.floor(tar.byteLength / 2), importChunkBytes: 4096 });
    const someone = await user({ scopes: CONTROLLER });
    const pieces = new Blob([tar]).stream();
    expect((await upload(someone.bearer, pieces)).status).toBe(429);
    const tables = await runInDurableObject(sessionStub(sessionId, someone.tenant), (_, { storage }) =>
      storage.sql.exec("SELECT name FROM sqlite_master WHERE name NOT LIKE '\\_cf%' ESCAPE '\\'").toArray(),
    );
    expect(tables).toEqual([]);
    expect((await get(`/api/sessions/${sessionId}`, someone.bearer)).status).toBe(404);
    await setLimitsOf(someone.tenant, { charsPerHour: DEFAULT_LIMITS.frameChars }, someone.sub);
    expect((await upload(someone.bearer, tar)).status).toBe(201);
  });

  test("counts when it is a record of the older form too", async () => {
    setLimits({ charsPerHour: 1000 });
    const someone = await user({ scopes: CONTROLLER });
    const record = JSON.stringify({ pad: "x".repeat(2000) });
    expect((await upload(someone.bearer, record, "application/json")).status).toBe(429);
    const tar = await packTar([]);
    expect((await upload(someone.bearer, tar.slice(0, 500))).status).toBe(400);
  });
});
