import { beforeEach, describe, expect, test } from "vitest";
import { DEFAULT_LIMITS } from "../../../src/protocol/limits.ts";
import type { Json } from "../../fixtures/json.ts";
import { prompt, workspaceName } from "../fixtures.ts";
import { setLimits } from "../limits.ts";
import { Client } from "../peers/client.ts";
import { Host } from "../peers/host.ts";

import { HttpPeer, INITIALIZE, JSON_TYPE, reply, request } from "../peers/http-client.ts";
import { token } from "../tokens.ts";
import { LONG, openSession, permission, UNKNOWN } from "./fixtures.ts";

// workerd notices that a reader has gone only when something is written to it, so keep-alive comments come often here.
beforeEach(() => setLimits({ keepAliveMs: 50, readerProbeMs: 300 }));

describe("POST", () => {
  test("creates a connection on initialize and answers 200 with its id", async () => {
    const workspace = workspaceName();
    await Host.join(workspace);
    const response = await request("POST", await token({ workspace }), JSON_TYPE, INITIALIZE);
    expect(response.status).toBe(200);
    expect(response.headers.get("Content-Type")).toBe("application/json");
    expect(response.headers.get("Acp-Connection-Id")).toMatch(/^[0-9a-f-]{36}$/);
    expect(await response.json()).toMatchObject({
      jsonrpc: "2.0",
      id: "i",
      result: { protocolVersion: 1, agentInfo: { name: "scripted" } },
    });
  });

  test("answers a refused initialize with 200 and the error, and serves no other request", async () => {
    const bearer = await token({ workspace: workspaceName() });
    const response = await request("POST", bearer, JSON_TYPE, INITIALIZE.replace(":1}", ':"x"}'));
    expect(response.status).toBe(200);
    expect(await response.json()).toMatchObject({ id: "i", error: { code: -32602 } });
    const peer = new HttpPeer(bearer, response.headers.get("Acp-Connection-Id") as string, {});
    await peer.call("session/new", { cwd: "/" });
    expect(await (await peer.stream()).take()).toMatchObject({ id: 0, error: { code: -32600 } });
  });

  const missing = [400, "Missing Acp-Session-Id"] as const;
  const mismatched = [400, "Mismatched Acp-Session-Id"] as const;
  const rpc = (method: string, params: Json = {}, rest: Json = { id: 1 }) =>
    JSON.stringify({ jsonrpc: "2.0", ...rest, method, params });

  describe("without a connection id", () => {
    test.each<[string, Record<string, string>, string, number, string | undefined]>([
      ["initialize on a connection", { "Acp-Connection-Id": UNKNOWN }, INITIALIZE, 400, undefined],
      [
        "initialize with id null",
        {},
        rpc("initialize", { protocolVersion: 1 }, { id: null }),
        400,
        undefined,
      ],
      ["initialize without id", {}, rpc("initialize", {}, {}), 400, "Missing Acp-Connection-Id"],
      ["initialize with a long id", {}, rpc("initialize", {}, { id: LONG }), 400, undefined],
      ["no content type", { "Content-Type": "" }, INITIALIZE, 415, "Unsupported Media Type"],
      ["another content type", { "Content-Type": "text/plain" }, INITIALIZE, 415, "Unsupported Media Type"],
      ["a content type like JSON", { "Content-Type": "application/json-rpc" }, INITIALIZE, 415, undefined],
      [
        "parameters and case of the type",
        { "Content-Type": "Application/JSON; charset=utf-8" },
        INITIALIZE,
        200,
        undefined,
      ],
      ["invalid JSON", {}, '{"a":', 400, "Invalid JSON"],
      ["nothing", {}, "", 400, "Invalid JSON"],
      ["a number", {}, "7", 400, "Invalid JSON-RPC message"],
      ["a string", {}, '"x"', 400, "Invalid JSON-RPC message"],
      ["null", {}, "null", 400, "Invalid JSON-RPC message"],
      ["no connection", {}, rpc("session/new"), 400, "Missing Acp-Connection-Id"],
      [
        "an unknown connection",
        { "Acp-Connection-Id": UNKNOWN },
        rpc("session/new"),
        404,
        "Unknown Acp-Connection-Id",
      ],
      [
        "a connection that is no UUID",
        { "Acp-Connection-Id": "x" },
        rpc("session/new"),
        404,
        "Unknown Acp-Connection-Id",
      ],
      ["too large", {}, `"${"x".repeat(DEFAULT_LIMITS.frameChars)}"`, 413, "Payload Too Large"],
    ])("answers: %s", async (_, headers, body, status, text) => {
      const bearer = await token({ workspace: workspaceName() });
      const got = await reply(await request("POST", bearer, { ...JSON_TYPE, ...headers }, body));
      expect(got).toEqual([status, text ?? expect.any(String)]);
    });

    test.each(["[]", `[${INITIALIZE}]`])(
      "answers the batch %s with 400 and a JSON-RPC error",
      async (body) => {
        const response = await request("POST", await token({ workspace: workspaceName() }), JSON_TYPE, body);
        expect(response.status).toBe(400);
        expect(response.headers.get("Content-Type")).toBe("application/json");
        expect(await response.json()).toMatchObject({ jsonrpc: "2.0", id: null, error: { code: -32600 } });
      },
    );
  });

  describe("on a connection", () => {
    const scoped = "cancel close delete fork load prompt resume set_config_option set_mode set_model";
    test.each(scoped.split(" ").map((name) => `session/${name}`))(
      "%s needs the session header",
      async (method) => {
        const peer = await HttpPeer.open(workspaceName());
        expect(await reply(await peer.post(rpc(method)))).toEqual(missing);
        expect(await reply(await peer.post(rpc(method, {}, {})))).toEqual(missing);
        expect(await reply(await peer.post(rpc(method, { sessionId: "a" })))).toEqual(missing);
        expect(await reply(await peer.post(rpc(method, { sessionId: "a" }), "b"))).toEqual(mismatched);
      },
    );

    test.each<[string, string, string | undefined, readonly [number, string | undefined]]>([
      ["any sessionId without the header", rpc("_x", { sessionId: "a" }), undefined, missing],
      ["any sessionId unlike the header", rpc("_x", { sessionId: "a" }, {}), "b", mismatched],
      ["a long session header", rpc("_x"), LONG, [400, undefined]],
      ["a long sessionId", rpc("_x", { sessionId: LONG }), LONG, [400, undefined]],
      ["a long request id", rpc("_x", {}, { id: LONG }), undefined, [400, undefined]],
      ["a request", rpc("_x"), undefined, [202, ""]],
      ["a notification", rpc("_x", {}, {}), undefined, [202, ""]],
      [
        "$/cancel_request without the header",
        rpc("$/cancel_request", { requestId: 1 }, {}),
        undefined,
        [202, ""],
      ],
      ["a response nobody waits for", '{"jsonrpc":"2.0","id":99,"result":{}}', undefined, [202, ""]],
      [
        "a response to a session not ours",
        `{"jsonrpc":"2.0","id":"${UNKNOWN}:3","result":{}}`,
        undefined,
        [202, ""],
      ],
      ["a malformed object", "{}", undefined, [202, ""]],
      ["an unknown session", rpc("session/prompt", { sessionId: "a" }), "a", [202, ""]],
    ])("answers: %s", async (_, body, session, [status, text]) => {
      const peer = await HttpPeer.open(workspaceName());
      expect(await reply(await peer.post(body, session))).toEqual([status, text ?? expect.any(String)]);
    });

    test("answers a second initialize with 400", async () => {
      const peer = await HttpPeer.open(workspaceName());
      const got = await reply(await peer.post(INITIALIZE));
      expect(got).toEqual([400, "Initialize not allowed on existing connection"]);
    });

    test("answers a malformed object with id null on the connection's stream", async () => {
      const peer = await HttpPeer.open(workspaceName());
      await peer.post("{}");
      await peer.post('{"jsonrpc":"2.0","id":4}', "some-session");
      const own = await peer.stream();
      for (let i = 0; i < 2; i += 1)
        expect(await own.take()).toMatchObject({ jsonrpc: "2.0", id: null, error: { code: -32600 } });
    });

    test("answers a request on the stream of its session, or of the connection without one", async () => {
      const peer = await HttpPeer.open(workspaceName());
      await peer.call("no/such", {});
      expect(await (await peer.stream()).take()).toMatchObject({ id: 0, error: { code: -32601 } });
      await peer.call("session/prompt", prompt("not-ours"));
      expect(await (await peer.stream("not-ours")).take()).toMatchObject({ id: 1, error: { code: -32002 } });
    });

    test("needs the session header for a response to an agent's request", async () => {
      const { peer, agent, sessionId } = await openSession();
      const stream = await peer.stream(sessionId);
      agent.items(permission(5));
      const { id } = await stream.take();
      const answer = JSON.stringify({ jsonrpc: "2.0", id, result: { outcome: { outcome: "cancelled" } } });
      expect(await reply(await peer.post(answer))).toEqual(missing);
      expect(await reply(await peer.post(answer, UNKNOWN))).toEqual(mismatched);
      expect(await reply(await peer.post(answer, sessionId))).toEqual([202, ""]);
      expect(await agent.line()).toMatchObject({ id: 5, result: { outcome: { outcome: "cancelled" } } });
    });
  });
});

describe("the WebSocket of /acp", () => {
  const first = async (text: string) => {
    const client = await Client.raw(workspaceName());
    client.send(text);
    return client;
  };

  test.each([
    ["a request", '{"jsonrpc":"2.0","id":1,"method":"session/new","params":{"cwd":"/"}}', 1002],
    ["a notification", '{"jsonrpc":"2.0","method":"session/cancel"}', 1002],
    ["initialize with id null", INITIALIZE.replace('"i"', "null"), 1002],
    ["an over-long id", `{"jsonrpc":"2.0","id":"${LONG}","method":"a"}`, 1008],
  ])("is closed by %s before initialize", async (_, text, code) => {
    expect((await (await first(text)).closed).code).toBe(code);
  });

  test.each([
    ["bad JSON", "{", -32700],
    ["a batch", "[]", -32600],
    ["no message", "{}", -32600],
    ["a primitive", "7", -32600],
  ])("answers %s with id null and stays open", async (_, text, code) => {
    const client = await first(text);
    expect(await client.takeJson()).toMatchObject({ jsonrpc: "2.0", id: null, error: { code } });
    client.send('{"jsonrpc":"2.0","id":99,"result":{}}');
    client.socket.send(new Uint8Array([1]));
    client.send(INITIALIZE);
    expect(await client.takeJson()).toMatchObject({ id: "i", result: { protocolVersion: 1 } });
    client.send(INITIALIZE);
    expect(await client.takeJson()).toMatchObject({ id: "i", error: { code: -32600 } });
  });

  test("makes a connection that HTTP requests cannot use", async () => {
    const bearer = await token({ workspace: workspaceName() });
    const upgraded = await request("GET", bearer, { Upgrade: "websocket" });
    expect(upgraded.status).toBe(101);
    upgraded.webSocket?.accept();
    const peer = new HttpPeer(bearer, upgraded.headers.get("Acp-Connection-Id") as string, {});
    expect((await peer.get()).status).toBe(404);
    upgraded.webSocket?.close();
  });
});
