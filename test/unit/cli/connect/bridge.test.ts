/** The bridge against a scripted gateway. */
import { once } from "node:events";
import type { IncomingMessage } from "node:http";
import type { AddressInfo } from "node:net";
import { createInterface } from "node:readline";
import { PassThrough } from "node:stream";
import { afterEach, beforeEach, expect, test } from "vitest";
import { type WebSocket, WebSocketServer } from "ws";
import { runBridge } from "../../../../src/cli/connect/bridge.ts";
import { DEFAULT_LIMITS } from "../../../../src/protocol/limits.ts";
import {
  type ClientHead,
  type GatewayHead,
  joinMessage,
  RESUMABLE,
  readClientHead,
  splitMessage,
} from "../../../../src/protocol/resumable-wire.ts";

/** One socket of the bridge, as the gateway sees it. */
type Visit = {
  socket: WebSocket;
  token: string;
  connection: string | undefined;
  say(head: GatewayHead, lines?: string[]): void;
  /** The next message of the bridge, without heartbeats. */
  heard(): Promise<{ head: ClientHead; lines: string[] }>;
};

let server: WebSocketServer;
let visits: AsyncIterator<Visit>;
let leave: AbortController;
let input: PassThrough;
let output: PassThrough;
let editorLines: AsyncIterator<string>;
let ended: ReturnType<typeof runBridge>;
let logged: string[];

beforeEach(async () => {
  server = new WebSocketServer({ port: 0, host: "127.0.0.1", handleProtocols: () => RESUMABLE });
  await once(server, "listening");
  visits = sequence<Visit>((push) =>
    server.on("connection", (socket, request) => push(visit(socket, request))),
  );
  [input, output] = [new PassThrough(), new PassThrough()];
  editorLines = sequence((push) => createInterface({ input: output }).on("line", push));
  leave = new AbortController();
  logged = [];
});

afterEach(async () => {
  leave.abort();
  await ended;
  for (const socket of server.clients) socket.terminate();
  server.close();
});

/** Starts a bridge whose token changes each time a fresh one is requested. */
function start(): void {
  let made = 1;
  ended = runBridge({
    url: `ws://127.0.0.1:${(server.address() as AddressInfo).port}/acp`,
    token: async (fresh) => `token-${fresh ? ++made : made}`,
    waitMs: 5_000,
    heartbeatMs: 60_000,
    limits: DEFAULT_LIMITS,
    input,
    output,
    log: (event) => void logged.push(event),
    signal: leave.signal,
  });
}

function visit(socket: WebSocket, { headers }: IncomingMessage): Visit {
  const messages = sequence<string>((push) => socket.on("message", (data) => push(data.toString())));
  return {
    socket,
    token: headers.authorization ?? "",
    connection: headers["acp-connection-id"] as string | undefined,
    say: (head, lines) => socket.send(joinMessage(head, lines)),
    heard: async () => {
      const { head, lines } = splitMessage((await messages.next()).value);
      return { head: readClientHead(head) as ClientHead, lines };
    },
  };
}

function sequence<T>(subscribe: (push: (item: T) => void) => void): AsyncIterator<T> {
  const items: T[] = [];
  let wake = () => {};
  subscribe((item) => {
    items.push(item);
    wake();
  });
  return {
    next: async () => {
      while (items.length === 0) await new Promise<void>((resolve) => (wake = resolve));
      return { value: items.shift() as T };
    },
  };
}

const next = async () => (await visits.next()).value as Visit;
const notice = (method: string, params: object) => JSON.stringify({ jsonrpc: "2.0", method, params });
const update = (n: number) => notice("session/update", { sessionId: "s", update: { n } });
const expiring = (inMs: number) =>
  notice("_acp-edge/token_expiring", { expiresAt: new Date(Date.now() + inMs).toISOString() });

/** The next lines for the editor. */
async function written(count: number): Promise<string[]> {
  const lines: string[] = [];
  while (lines.length < count) lines.push((await editorLines.next()).value);
  return lines;
}

test("a token that is about to expire is replaced by a new socket, unnoticed by the editor", async () => {
  start();
  const first = await next();
  await first.heard();
  first.say({ t: "welcome", connection: "c", received: 0 });
  first.say({ t: "page", of: "s", at: "1.5" }, [update(1)]);
  // The token expires in a moment.
  first.say({ t: "page", of: "", at: "7" }, [expiring(0), notice("_other/news", {})]);
  const second = await next();
  expect(second).toMatchObject({ token: "Bearer token-2", connection: "c" });
  expect((await second.heard()).head).toEqual({ t: "hello", own: 7, cursors: { s: "1.5" } });
  second.say({ t: "welcome", connection: "c", received: 0 });
  second.say({ t: "page", of: "s", at: "1.6" }, [update(2)]);
  expect(await written(3)).toEqual([update(1), notice("_other/news", {}), update(2)]);
});

test("an agent's own message about tokens reaches the editor", async () => {
  start();
  const first = await next();
  first.say({ t: "welcome", connection: "c", received: 0 });
  first.say({ t: "page", of: "s", at: "1.5" }, [expiring(0)]);
  first.say({ t: "page", of: "", at: "1" }, [JSON.stringify({ id: 1, result: "_acp-edge/token_expiring" })]);
  const lines = await written(2);
  expect(lines[0]).toContain("expiresAt");
  expect(lines[1]).toContain('"result"');
});

test("a socket closed because its token has expired is followed by one with a fresh token", async () => {
  start();
  const first = await next();
  first.say({ t: "welcome", connection: "c", received: 0 });
  first.socket.close(4401, "expired");
  expect(await next()).toMatchObject({ token: "Bearer token-2", connection: "c" });
});

test("a gateway that asks to try again later is left alone for a while", async () => {
  start();
  const first = await next();
  await first.heard();
  first.say({ t: "welcome", connection: "c", received: 0 });
  input.write('{"jsonrpc":"2.0","method":"_note"}\n');
  await first.heard();
  first.socket.close(1008, "quota exceeded");
  const lost = /^link lost, trying again in ([\d.]+) s: 1008 quota exceeded$/;
  await expect.poll(() => logged).toEqual([expect.stringMatching(lost)]);
  const pause = Number(lost.exec(logged[0] ?? "")?.[1]);
  expect(pause).toBeGreaterThanOrEqual(2.5);
  expect(pause).toBeLessThanOrEqual(5);
});

test("a fresh token that is refused too ends the bridge with an error for the editor", async () => {
  start();
  const first = await next();
  await first.heard();
  first.say({ t: "welcome", connection: "c", received: 0 });
  input.write('{"jsonrpc":"2.0","id":7,"method":"initialize"}\n');
  await first.heard();
  first.socket.close(4401, "expired");
  (await next()).socket.close(4401, "expired");
  expect(await ended).toMatchObject({ code: 3, message: "the gateway does not accept the token" });
  expect(await written(1)).toEqual([expect.stringContaining('"id":7,"error"')]);
});

test("the requests of a session that cannot be restored get exactly one error", async () => {
  start();
  const first = await next();
  await first.heard();
  first.say({ t: "welcome", connection: "c", received: 0 });
  first.say({ t: "page", of: "s", at: "1.5" }, [update(1)]);
  const asks = (id: number, sessionId: string) =>
    `{"jsonrpc":"2.0","id":${id},"method":"session/prompt","params":{"sessionId":"${sessionId}"}}`;
  input.write('{"jsonrpc":"2.0","id":0,"method":"initialize"}\n');
  input.write(`${asks(1, "s")}\n`);
  for (let received = 0; received < 2; ) received += (await first.heard()).lines.length;
  first.say({ t: "ack", received: 2 });
  first.say({ t: "page", of: "", at: "1" }, ['{"jsonrpc":"2.0","id":0,"result":{}}']);
  expect(await written(2)).toHaveLength(2);

  // The gateway has forgotten the connection and opens a new one.
  server.options.verifyClient = ({ req }, answer) =>
    req.headers["acp-connection-id"] === undefined ? answer(true) : answer(false, 404);
  first.socket.terminate();
  const second = await next();
  expect(second.connection).toBeUndefined();
  expect((await second.heard()).head).toEqual({ t: "hello", own: 0, cursors: {} });
  input.write(`${asks(2, "s")}\n`);
  second.say({ t: "welcome", connection: "d", received: 0 });
  const asked: string[] = [];
  while (asked.length < 3) asked.push(...(await second.heard()).lines);
  const [initialize, resume, prompt] = asked.map((line) => JSON.parse(line));
  expect(initialize).toMatchObject({ method: "initialize" });
  expect(resume).toMatchObject({
    method: "session/resume",
    params: { sessionId: "s", _meta: { "acp-edge/after": 5, "acp-edge/as": "c" } },
  });
  expect(prompt).toMatchObject({ id: 2 });
  const no = (id: unknown) =>
    JSON.stringify({ jsonrpc: "2.0", id, error: { code: -32002, message: "gone" } });
  second.say({ t: "page", of: "", at: "2" }, [
    JSON.stringify({ jsonrpc: "2.0", id: initialize.id, result: {} }),
    no(resume.id),
    no(2),
    notice("_other/news", {}),
  ]);
  const lines = await written(3);
  expect(lines.map((line) => JSON.parse(line))).toMatchObject([
    { id: 1, error: { message: "acp-edge: the session could not be continued: gone" } },
    { id: 2, error: {} },
    { method: "_other/news" },
  ]);
});
