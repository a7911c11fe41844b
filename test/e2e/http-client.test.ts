/** The official SDK over Streamable HTTP, against the whole system. */
import { once } from "node:events";
import net from "node:net";
import { methods, type RequestPermissionResponse } from "@agentclientprotocol/sdk";
import { afterAll, beforeAll, expect, test } from "vitest";
import { Client } from "./client.ts";
import { eventually, type Gateway, startGateway } from "./gateway.ts";
import { streamed, textOf, upTo } from "./updates.ts";

let gateway: Gateway;
beforeAll(async () => {
  gateway = await startGateway();
});
afterAll(() => gateway?.[Symbol.asyncDispose]());

const connect = () => Client.connect(gateway, { over: "http" });
const select = (optionId: string): RequestPermissionResponse => ({
  outcome: { outcome: "selected", optionId },
});

test("a whole turn has its updates before the response", async () => {
  await using client = await connect();
  const session = await client.newSession();
  const { updates, stopReason } = await client.prompt(session, "/think Hm.\n/plan\n/tool search\n/usage");
  expect(stopReason).toBe("end_turn");
  expect(updates.map(({ sessionUpdate }) => sessionUpdate)).toEqual(
    expect.arrayContaining(["agent_thought_chunk", "plan", "tool_call", "tool_call_update", "usage_update"]),
  );
  expect((await client.prompt(session, "/history")).stopReason).toBe("end_turn");
});

test("a long stream without pauses arrives complete", async () => {
  await using client = await connect();
  const session = await client.newSession();
  const { updates } = await client.prompt(session, "/stream 20000 120");
  expect(streamed(updates)).toEqual(upTo(20_000));
});

test("a permission request is sent and answered", async () => {
  await using client = await connect();
  const session = await client.newSession();
  client.onPermission = () => select("allow");
  const { updates } = await client.prompt(session, "/permission");
  expect(textOf(updates)).toBe("Permission selected: allow\n");
});

test("two sessions at once each have their own stream and permission request", async () => {
  await using client = await connect();
  const [a, b] = await Promise.all([client.newSession(), client.newSession()]);
  const bothAsked = Promise.withResolvers<void>();
  const asked = new Set<string>();
  client.onPermission = async ({ sessionId }) => {
    if (asked.add(sessionId).size === 2) bothAsked.resolve();
    await bothAsked.promise;
    return select(sessionId === a ? "allow" : "reject");
  };
  const [turnA, turnB] = await Promise.all([
    client.prompt(a, "/stream 400 120 1\n/permission\n/max_tokens"),
    client.prompt(b, "/stream 300 80 1\n/permission\n/refuse"),
  ]);
  expect(streamed(turnA.updates)).toEqual(upTo(400));
  expect(streamed(turnB.updates)).toEqual(upTo(300));
  expect(textOf(turnA.updates)).toContain("selected: allow");
  expect(textOf(turnB.updates)).toContain("selected: reject");
  expect([turnA.stopReason, turnB.stopReason]).toEqual(["max_tokens", "refusal"]);
});

test("a turn can be cancelled", async () => {
  await using client = await connect();
  const session = await client.newSession();
  const turn = client.prompt(session, "/slow 60");
  await client.hears(session, "tick 2 ");
  await client.cancel(session);
  expect((await turn).stopReason).toBe("cancelled");
});

test("a session is loaded by another connection, and closed", async () => {
  const first = await connect();
  const session = await first.newSession();
  await first.prompt(session, "/stream 3000 120");
  await first.close();

  await using second = await connect();
  await second.load(session);
  // The answer comes on another stream and may overtake the end of the replay.
  await second.hears(session, "002999");
  expect(streamed(second.updates(session))).toEqual(upTo(3000));
  const { updates } = await second.prompt(session, "/stream 20 40");
  expect(streamed(updates)).toEqual(upTo(20));
  await second.agent.request(methods.agent.session.close, { sessionId: session });
});

test("errors come back to the request that caused them", async () => {
  await using client = await connect();
  const unknown = crypto.randomUUID();
  await expect(client.load(unknown)).rejects.toMatchObject({ code: -32002 });
  await expect(client.prompt(unknown, "x")).rejects.toMatchObject({ code: -32002 });
  for (const method of ["no/such", "_no/such"])
    await expect(client.agent.request(method, {})).rejects.toMatchObject({ code: -32601 });
  expect(await client.newSession()).toMatch(/^[0-9a-f-]{36}$/);
});

test("[I7] a turn goes on when its client leaves", async () => {
  const first = await connect();
  const session = await first.newSession();
  const turn = first.prompt(session, "/stream 200 40 5").catch(() => {});
  await first.hears(session, "000010");
  await first.close();
  await turn;
  await using second = await connect();
  await second.load(session);
  await second.hears(session, "000199");
  expect(streamed(second.updates(session))).toEqual(upTo(200));
});

test("a client over HTTP and one over a WebSocket share a session", async () => {
  await using http = await connect();
  await using socket = await Client.connect(gateway);
  const session = await http.newSession();
  await socket.load(session);
  socket.onPermission = () => select("allow");
  const { updates } = await http.prompt(session, "/stream 100 40\n/permission");
  expect(streamed(updates)).toEqual(upTo(100));
  expect(textOf(updates)).toContain("selected: allow");
  await socket.hears(session, "selected: allow");
  expect(streamed(socket.updates(session))).toEqual(upTo(100));

  const answer = await socket.prompt(session, "/stream 50 40");
  expect(streamed(answer.updates)).toEqual(upTo(50));
  await http.hears(session, "000049");
  expect(http.updates(session)).toContainEqual(
    expect.objectContaining({ sessionUpdate: "user_message_chunk" }),
  );
});

test("a reader whose socket vanished does not keep the next reader out", async () => {
  const json = { "content-type": "application/json" };
  const rpc = (id: number, method: string, params = {}) =>
    JSON.stringify({ jsonrpc: "2.0", id, method, params });
  const body = rpc(0, "initialize", { protocolVersion: 1 });
  const initialized = await gateway.api("/acp", { method: "POST", headers: json, body });
  const headers = { "acp-connection-id": initialized.headers.get("acp-connection-id") as string };
  const { hostname, port } = new URL(gateway.url);
  const listen = async () => {
    const socket = net.connect(Number(port), hostname);
    const lines = ["GET /acp HTTP/1.1", `Host: ${hostname}`, "Accept: text/event-stream"];
    lines.push(
      `Authorization: Bearer ${gateway.token}`,
      `Acp-Connection-Id: ${headers["acp-connection-id"]}`,
    );
    socket.write(`${lines.join("\r\n")}\r\n\r\n`);
    const [head] = (await once(socket, "data")) as [Buffer];
    return { socket, status: head.toString().split(" ")[1] };
  };
  const first = await listen();
  expect(first.status).toBe("200");
  expect((await listen()).status).toBe("409");
  first.socket.destroy();
  const second = await listen();
  expect(second.status).toBe("200");
  let received = "";
  second.socket.on("data", (data: Buffer) => (received += data.toString()));
  await gateway.api("/acp", { method: "POST", headers: { ...json, ...headers }, body: rpc(1, "_no/such") });
  await eventually(() => received.includes("-32601"));
  second.socket.destroy();
});
