/** Bad input and bad agents: the peer that causes trouble gets a clear error, and no other peer notices. */
import { randomUUID } from "node:crypto";
import { once } from "node:events";
import { realpathSync } from "node:fs";
import type { IncomingMessage } from "node:http";
import { fileURLToPath } from "node:url";
import { methods, RequestError } from "@agentclientprotocol/sdk";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import WebSocket from "ws";
import { STARTUP_NOISE } from "../../src/demo-agent/habits.ts";
import { thisMachine } from "../../src/host/agent/installation.ts";
import { offeredAgents } from "../../src/host/agent/offered-agents.ts";
import { Host } from "../../src/host/host.ts";
import { DEFAULT_TIMING } from "../../src/node/timing.ts";
import { type HostControl, LINK_VERSION } from "../../src/protocol/host-wire.ts";
import { DEFAULT_LIMITS } from "../../src/protocol/limits.ts";
import { Client, parse, RawClient, readLog } from "./client.ts";
import { eventually, type Gateway, startGateway, withWorkspace } from "./gateway.ts";
import { streamed, textOf, upTo } from "./updates.ts";

const DEMO_AGENT = fileURLToPath(new URL("../../src/demo-agent/main.ts", import.meta.url));

let gateway: Gateway;
beforeAll(async () => {
  gateway = await startGateway();
});
afterAll(() => gateway?.[Symbol.asyncDispose]());

describe("a faulty client", () => {
  let client: RawClient;
  let sessionId: string;
  beforeAll(async () => {
    client = await RawClient.initialized(gateway);
    sessionId = await client.newSession(gateway.root);
  });
  afterAll(() => client?.[Symbol.asyncDispose]());

  const prompt = (text: string) => ({ sessionId, prompt: [{ type: "text", text }] });
  /** Checks that the connection and its session still work. */
  const goesOn = async () =>
    expect(await client.request("session/prompt", prompt("hi"))).toMatchObject({
      result: { stopReason: "end_turn" },
    });

  test.each([
    ["what is not JSON", "{oops", -32700],
    ["an empty text", "", -32700],
    ["an empty batch", "[]", -32600],
    ["a batch", '[{"jsonrpc":"2.0","id":1,"method":"session/list"}]', -32600],
    ["a number", "17", -32600],
    ["null", "null", -32600],
    ["an empty object", "{}", -32600],
    ["an object that is no message", '{"hello":"world"}', -32600],
    ["a method that is not a string", '{"jsonrpc":"2.0","id":1,"method":7}', -32600],
  ])("gets an error for %s, and goes on", async (_, text, code) => {
    const answer = client.answer();
    client.send(text);
    expect(await answer).toMatchObject({ jsonrpc: "2.0", id: null, error: { code } });
    await goesOn();
  });

  test("gets no answer to a binary message, and goes on", async () => {
    const before = client.texts.entries.length;
    client.send(Buffer.from('{"jsonrpc":"2.0","id":1,"method":"initialize"}'));
    await goesOn();
    expect(client.texts.entries.slice(before).map((text) => parse(text).id)).not.toContain(1);
  });

  test.each(["session/prompt", "session/load", "session/set_mode", "_vendor/anything"])(
    "gets -32002 with the session id for %s of an unknown session",
    async (method) => {
      for (const unknown of [randomUUID(), "no-uuid", sessionId.toUpperCase()]) {
        const params = { ...prompt("hi"), sessionId: unknown, cwd: gateway.root, mcpServers: [] };
        expect(await client.request(method, params)).toMatchObject({
          error: { code: -32002, data: { sessionId: unknown } },
        });
      }
      await goesOn();
    },
  );

  test("gets the agent's answer to an unknown method of a session", async () => {
    const method = `_vendor/${randomUUID()}`;
    expect(await client.request(method, { sessionId })).toMatchObject({
      error: RequestError.methodNotFound(method).toErrorResponse(),
    });
    const frames = (await readLog(gateway, sessionId)).filter(
      ({ payload }) => payload.message?.method === method,
    );
    expect(frames).toMatchObject([{ source: "client", payload: { direction: "out" } }]);
  });

  test.each([
    ["from the gateway", "nobody/knows"],
    ["from the agent, for a method of a vendor", "_vendor/nobody"],
  ])("gets -32601 %s, for an unknown method without a session", async (_, method) => {
    expect(await client.request(method, {})).toMatchObject({ error: { code: -32601 } });
    await goesOn();
  });

  test("gets -32602 when it names no session where one is needed", async () => {
    expect(await client.request("session/prompt", { prompt: [] })).toMatchObject({ error: { code: -32602 } });
    await goesOn();
  });

  test("gets -32602 when it names no directory for a new session", async () => {
    expect(await client.request("session/new", {})).toMatchObject({ error: { code: -32602 } });
    await goesOn();
  });

  test("gets no answer to a stray notification or response, and goes on", async () => {
    const before = client.texts.entries.length;
    client.send('{"jsonrpc":"2.0","method":"_vendor/note","params":{}}');
    client.send(`{"jsonrpc":"2.0","method":"session/cancel","params":{"sessionId":"${randomUUID()}"}}`);
    client.send('{"jsonrpc":"2.0","id":"nobody asked","result":{}}');
    client.send(`{"jsonrpc":"2.0","id":"${sessionId}:1","result":{}}`);
    client.send('{"jsonrpc":"2.0","method":"$/cancel_request","params":{"requestId":99}}');
    await goesOn();
    const errors = client.texts.entries.slice(before).filter((text) => parse(text).error);
    expect(errors).toEqual([]);
  });

  test("gets -32600 when it initializes twice", async () => {
    expect(await client.request("initialize", { protocolVersion: 1 })).toMatchObject({
      error: { code: -32600 },
    });
    await goesOn();
  });

  test("gets -32602 for a malformed version, and may try again", async () => {
    await using other = await RawClient.connect(gateway);
    expect(await other.request("initialize", { protocolVersion: "one" })).toMatchObject({
      error: { code: -32602 },
    });
    expect(await other.request("initialize", { protocolVersion: 99 })).toMatchObject({
      result: { protocolVersion: 1 },
    });
  });

  test("is closed with 1002 when it does not initialize first", async () => {
    await using other = await RawClient.connect(gateway);
    other.send(`{"jsonrpc":"2.0","id":1,"method":"session/new","params":{"cwd":"/","mcpServers":[]}}`);
    expect(await other.closed).toMatchObject({ code: 1002 });
    await goesOn();
  });

  test.each([
    ["a request id", { id: "x".repeat(DEFAULT_LIMITS.idChars + 1), method: "session/list", params: {} }],
    [
      "a session id",
      { id: 1, method: "session/prompt", params: { sessionId: "x".repeat(DEFAULT_LIMITS.idChars + 1) } },
    ],
  ])("is closed with 1008 for %s that is too long", async (_, message) => {
    await using other = await RawClient.initialized(gateway);
    other.send(JSON.stringify({ jsonrpc: "2.0", ...message }));
    expect(await other.closed).toMatchObject({ code: 1008 });
    await goesOn();
  });

  test("gets an error for a frame that is too big, and goes on as others do", async () => {
    await using editor = await Client.connect(gateway);
    const session = await editor.newSession();
    const turn = editor.prompt(session, "/stream 300 100 2");
    await editor.hears(session, "000010 ");

    await using other = await RawClient.initialized(gateway);
    const answer = other.answer();
    const big = "x".repeat(17 * 1024 * 1024);
    other.send(
      JSON.stringify({ jsonrpc: "2.0", id: 1, method: "session/prompt", params: { ...prompt(big) } }),
    );
    expect(await answer).toMatchObject({
      id: 1,
      error: { code: -32600, message: expect.stringContaining(String(DEFAULT_LIMITS.frameChars)) },
    });
    expect(await other.request("session/list", {})).toBeDefined();
    expect(streamed((await turn).updates)).toEqual(upTo(300));
    await goesOn();
  });

  test("is detached from its sessions when it breaks the WebSocket protocol", async () => {
    await using other = await RawClient.initialized(gateway);
    await other.request("session/resume", { sessionId, cwd: "/", mcpServers: [] });
    const present = async () => {
      const view = (await (await gateway.api(`/api/sessions/${sessionId}`)).json()) as { clients: unknown[] };
      return view.clients.length;
    };
    expect(await present()).toBe(2);
    other.violate();
    await eventually(async () => (await present()) === 1);
    await goesOn();
  });

  test("is served with a frame that is almost too large", async () => {
    const text = `/history ${"x".repeat(DEFAULT_LIMITS.frameChars - 1000)}`;
    expect(await client.request("session/prompt", prompt(text))).toMatchObject({
      result: { stopReason: "end_turn" },
    });
  });

  test("gets its close frame back at once", async () => {
    const other = await RawClient.initialized(gateway);
    other.close(1000);
    expect(await other.closed).toMatchObject({ code: 1000 });
  });

  test.each([
    ["without a token", ""],
    ["with a token that is none", "?token=none"],
    ["with a token signed by somebody else", "?token=eyJhbGciOiJFZERTQSJ9.eyJzdWIiOiJ4In0.c2lnbmF0dXJl"],
  ])("(%s) is refused with 401", async (_, query) => {
    expect(await upgradeStatus(query)).toBe(401);
    expect((await fetch(`${gateway.url}/api/sessions${query}`)).status).toBe(401);
  });

  test("is refused with 401 with a tampered token", async () => {
    const [head, claims, signature] = gateway.token.split(".") as [string, string, string];
    const forged = { ...JSON.parse(Buffer.from(claims, "base64url").toString()), tenant: "other" };
    const query = `?token=${head}.${Buffer.from(JSON.stringify(forged)).toString("base64url")}.${signature}`;
    expect(await upgradeStatus(query)).toBe(401);
  });

  test("cannot prompt with a host's token, nor be a host with a client's token", async () => {
    expect(await upgradeStatus(`?token=${gateway.hostToken}`)).toBe(403);
    expect(await upgradeStatus(`?token=${gateway.token}`, "/host/control")).toBe(403);
  });

  test("is told when it names an unknown workspace or agent", async () => {
    expect(await upgradeStatus(`?token=${gateway.token}&workspace=elsewhere`)).toBe(404);
    await expect(Client.connect(gateway, { agent: "nobody" })).rejects.toMatchObject({
      code: -32602,
      message: expect.stringContaining("nobody"),
    });
  });
});

test("a host that breaks the WebSocket protocol is disconnected", async () => {
  const workspace = await withWorkspace(gateway, "broken-host");
  const socket = new WebSocket(`${gateway.url.replace("http", "ws")}/host/control`, {
    headers: { authorization: `Bearer ${workspace.hostToken}` },
  });
  const upgraded = once(socket, "upgrade") as Promise<[IncomingMessage]>;
  const hello: HostControl = {
    t: "hello",
    version: LINK_VERSION,
    name: "broken",
    instance: randomUUID(),
    root: "/workspace",
    software: { version: "1", node: "v24", platform: "linux" },
    capacity: 1,
    draining: false,
    agents: [],
    runs: [],
  };
  await once(socket, "open");
  socket.send(JSON.stringify(hello));
  await once(socket, "message");
  const state = async () => {
    const view = await (await workspace.api("/api/workspaces/broken-host")).json();
    return (view as { hosts: { state: string }[] }).hosts[0]?.state;
  };
  expect(await state()).toBe("connected");
  const [{ socket: stream }] = await upgraded;
  stream.write(Buffer.from([0x8b, 0x80, 0, 0, 0, 0]));
  await eventually(async () => (await state()) === "gone");
  socket.terminate();
});

describe("a faulty agent", () => {
  let client: Client;
  let bystander: string;
  beforeAll(async () => {
    client = await Client.connect(gateway);
    bystander = await client.newSession();
  });
  afterAll(() => client?.close());

  /** Runs `trouble` while another session streams. */
  const whileStreaming = async <T>(trouble: () => Promise<T>): Promise<T> => {
    const turn = client.prompt(bystander, "/stream 300 100 1");
    const result = await trouble();
    expect(streamed((await turn).updates)).toEqual(upTo(300));
    return result;
  };

  test("is understood although it prints garbage, which is in the log and never at the client", async () => {
    const session = await client.newSession();
    const { updates, stopReason } = await client.prompt(session, "/garbage\n/stream 20 40");
    expect(stopReason).toBe("end_turn");
    expect(textOf(updates)).toContain("Wrote garbage to stdout.\n");
    expect(streamed(updates)).toEqual(upTo(20));
    const noise = (await readLog(gateway, session)).filter(({ kind }) => kind === "runtime.noise");
    expect(noise).toMatchObject([
      { source: "host", payload: { text: "this line is not JSON" } },
      { source: "host", payload: { text: '{"jsonrpc":"2.0","method":' } },
      { source: "host", payload: { text: expect.stringMatching(/^no /) } },
    ]);
    const received = client.wire.entries.filter(({ by }) => by === "them");
    expect(JSON.stringify(received)).not.toContain("this line is not JSON");
  });

  test("does not hold up others by flooding stdout with noise", async () => {
    const session = await client.newSession();
    const { stopReason, updates } = await whileStreaming(() => client.prompt(session, "/flood 200000"));
    expect(stopReason).toBe("end_turn");
    expect(textOf(updates)).toBe("Wrote 200000 lines of noise to stdout.\n");
    const noise = (await readLog(gateway, session)).filter(({ kind }) => kind === "runtime.noise");
    expect(noise.length).toBeGreaterThan(0);
    expect(noise.length).toBeLessThan(2000);
    expect((await client.prompt(session, "again")).stopReason).toBe("end_turn");
  });

  test("fails its turn when it crashes, and the next prompt gets a new process", async () => {
    const session = await client.newSession();
    const crash = client.prompt(session, "/stderr it hurts\n/crash 7");
    await expect(crash).rejects.toMatchObject({
      code: -32603,
      message: expect.stringContaining("exit code 7"),
      data: { stderr: expect.stringContaining("it hurts") },
    });
    expect(textOf(client.updates(session))).toContain("Crashing.\n");
    const { stopReason, updates } = await whileStreaming(() =>
      client.prompt(session, "/stream 10 40\n/history"),
    );
    expect(stopReason).toBe("end_turn");
    expect(streamed(updates)).toEqual(upTo(10));
    expect(textOf(updates)).toContain("prompts: 1\n");
    const kinds = (await readLog(gateway, session)).map(({ kind }) => kind);
    expect(kinds.filter((kind) => /^turn\.|owner|rebound/.test(kind))).toEqual([
      "queue.owner.started",
      "turn.started",
      "queue.owner.stopped",
      "turn.failed",
      "queue.owner.started",
      "session.rebound",
      "turn.started",
      "turn.completed",
    ]);
  });

  test("has its mode and its options in the process after a crash too", async () => {
    const session = await client.newSession();
    const { setMode, setConfigOption } = methods.agent.session;
    await client.agent.request(setMode, { sessionId: session, modeId: "architect" });
    const option = { configId: "thought_level", value: "high" };
    await client.agent.request(setConfigOption, { sessionId: session, ...option });
    await expect(client.prompt(session, "/crash")).rejects.toMatchObject({ code: -32603 });
    await client.prompt(session, "hi");
    const log = await readLog(gateway, session);
    const asked = log.filter(({ source, payload }) => source === "gateway" && payload.direction === "out");
    expect(asked.map(({ payload }) => payload.message?.params).slice(-2)).toMatchObject([
      { modeId: "architect" },
      option,
    ]);
    const kinds = log.map(({ kind }) => kind);
    expect(kinds.indexOf("agent.settings.restored")).toBeLessThan(kinds.lastIndexOf("turn.started"));
    // The agent itself says so: the mode by an update, the option by its answer.
    const loaded = await client.load(session);
    expect(loaded?.modes?.currentModeId).toBe("architect");
    expect(loaded?.configOptions?.find(({ id }) => id === option.configId)?.currentValue).toBe("high");
  });

  test("runs its waiting prompts in a new process after a crash", async () => {
    const session = await client.newSession();
    const crash = client.prompt(session, "/slow 0.2\n/crash");
    const waiting = client.prompt(session, "/history");
    await expect(crash).rejects.toMatchObject({ code: -32603 });
    expect(textOf((await waiting).updates)).toMatch(/prompts: 1\n$/);
  });

  test("holds up nobody else by never answering a prompt", async () => {
    const other = await Client.connect(gateway);
    const session = await other.newSession();
    other.prompt(session, "/hang").catch(() => {});
    await other.hears(session, "Hanging.");
    await whileStreaming(async () => other.cancel(session));
    await other.close();
    expect((await client.prompt(bystander, "hi")).stopReason).toBe("end_turn");
  });
});

describe("an agent that", () => {
  const habits = ["exit", "silent", "version2", "garbage,early-update,ids"];
  let host: Host;
  beforeAll(() => {
    host = new Host({
      gateway: {
        url: gateway.url,
        token: () => gateway.hostToken,
        timing: { ...DEFAULT_TIMING, initializeMs: 2000 },
        limits: DEFAULT_LIMITS,
        log: () => {},
      },
      workspace: gateway.workspace,
      name: "zoo",
      root: realpathSync(gateway.root),
      agents: [
        ...offeredAgents({ agents: ["demo"] }, thisMachine(process.env, false)),
        ...habits.map((habit) => ({
          id: habit,
          name: habit,
          command: ["env", `DEMO_AGENT_MISBEHAVE=${habit}`, process.execPath, DEMO_AGENT],
          default: false,
        })),
      ],
      onRefused: (reason) => expect.unreachable(reason),
    });
  });
  afterAll(() => host?.close());

  const connect = async (agent: string): Promise<Client> => {
    let client: Client | undefined;
    await eventually(async () => {
      client = await Client.connect(gateway, { agent });
      return true;
    });
    return client!;
  };

  test("exits at once makes session/new fail with the exit code and the end of stderr", async () => {
    await using client = await connect("exit");
    const failure = {
      code: -32603,
      message: expect.stringContaining("exit code 3"),
      data: { stderr: expect.stringContaining("refusing to start") },
    };
    await expect(client.newSession()).rejects.toMatchObject(failure);
    await expect(client.newSession()).rejects.toMatchObject(failure);
  });

  test("never answers makes session/new fail", async () => {
    await using client = await connect("silent");
    await expect(client.newSession()).rejects.toMatchObject({
      code: -32603,
      message: expect.stringContaining("did not answer initialize within 2000 ms"),
    });
  });

  test("speaks another version makes session/new fail", async () => {
    await using client = await connect("version2");
    await expect(client.newSession()).rejects.toMatchObject({
      code: -32603,
      message: expect.stringContaining("protocol version 2"),
    });
  });

  test("starts with noise, sends early updates and writes strange ids works all the same", async () => {
    await using client = await connect("garbage,early-update,ids");
    client.onPermission = () => ({ outcome: { outcome: "selected", optionId: "allow" } });
    const session = await client.newSession();
    const { updates } = await client.prompt(session, "/permission\n/edit strange.txt\n/stream 50 40");
    expect(textOf(updates)).toContain("Permission selected: allow\n");
    expect(textOf(updates)).toContain("strange.txt\n");
    expect(streamed(updates)).toEqual(upTo(50));
    expect(client.updates(session)[0]?.sessionUpdate).toBe("available_commands_update");
    const noise = (await readLog(gateway, session)).filter(({ kind }) => kind === "runtime.noise");
    expect(noise.map(({ payload }) => payload.text)).toEqual(STARTUP_NOISE.split("\n").filter(Boolean));
  });
});

test("a gateway with a missing agent reports that for each session, and its other agent works", async () => {
  await using gateway = await startGateway({ agent: "no-such-agent --acp" });
  await using client = await Client.connect(gateway);
  await expect(client.newSession()).rejects.toMatchObject({
    code: -32603,
    message: expect.stringContaining("no-such-agent"),
  });
  await using other = await Client.connect(gateway, { agent: "demo" });
  expect((await other.prompt(await other.newSession(), "hi")).stopReason).toBe("end_turn");
});

/** The HTTP response to an attempt to open a WebSocket. */
async function upgradeStatus(query: string, path = "/acp"): Promise<number> {
  const socket = new WebSocket(`${gateway.url.replace("http", "ws")}${path}${query}`);
  socket.on("error", () => {});
  const [, response] = await once(socket, "unexpected-response");
  socket.terminate();
  return (response as { statusCode: number }).statusCode;
}
