/** Requests whose bodies arrive slowly or stop, written byte by byte on bare sockets. */
import { connect } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { afterAll, beforeAll, expect, test } from "vitest";
import { Client } from "./client.ts";
import { type Gateway, startGateway } from "./gateway.ts";
import { streamed, upTo } from "./updates.ts";

const LIMITS = { bodyStallMs: 1000, bodyMs: 3000 };
/** The pause between the pieces of a steady body, which can take longer than `bodyMs` in total. */
const EVERY_MS = 200;

let gateway: Gateway;
let other: Client;
let session: string;
beforeAll(async () => {
  gateway = await startGateway({ env: { ACP_EDGE_LIMITS: JSON.stringify(LIMITS) } });
  other = await Client.connect(gateway);
  session = await other.newSession();
});
afterAll(async () => {
  await other?.close();
  await gateway?.[Symbol.asyncDispose]();
});

type Route = { method: string; path: string; type: string };
const ACP: Route = { method: "POST", path: "/acp", type: "application/json" };
const SETTINGS: Route = { method: "PUT", path: "/api/workspaces/local", type: "application/json" };
const IMPORT: Route = { method: "POST", path: "/api/sessions/import", type: "application/x-tar" };

/** The response to a body that the given function writes, or "closed" if the connection ends instead. */
async function exchange(
  { method, path, type }: Route,
  length: number | "chunked",
  write: (piece: (bytes: string | Buffer) => void, isOver: () => boolean) => Promise<void>,
): Promise<{ status: number | "closed"; body: string }> {
  const { hostname, port } = new URL(gateway.url);
  const socket = connect(Number(port), hostname);
  let text = "";
  let over = false;
  const answered = Promise.withResolvers<void>();
  socket.on("data", (chunk: Buffer) => {
    text += chunk.toString("latin1");
    if (isWhole(text)) answered.resolve();
  });
  socket.on("error", () => {});
  socket.on("close", () => answered.resolve());
  void answered.promise.then(() => {
    over = true;
  });
  const size = length === "chunked" ? "Transfer-Encoding: chunked" : `Content-Length: ${length}`;
  socket.write(
    [
      `${method} ${path} HTTP/1.1`,
      `Host: ${hostname}`,
      `Authorization: Bearer ${gateway.token}`,
      `Content-Type: ${type}`,
      size,
      "\r\n",
    ].join("\r\n"),
  );
  const piece = (bytes: string | Buffer) => {
    if (over || socket.destroyed) return;
    const data = Buffer.from(bytes);
    if (length !== "chunked") return void socket.write(data);
    socket.write(Buffer.concat([Buffer.from(`${data.length.toString(16)}\r\n`), data, Buffer.from("\r\n")]));
  };
  await write(piece, () => over);
  if (length === "chunked") socket.write("0\r\n\r\n");
  await answered.promise;
  socket.destroy();
  const status = text === "" ? "closed" : Number(text.split(" ")[1]);
  return { status, body: text.slice(text.indexOf("\r\n\r\n") + 4) };
}

function isWhole(answer: string): boolean {
  const [head = "", body] = answer.split("\r\n\r\n");
  const length = /^content-length: (\d+)/im.exec(head)?.[1];
  return body !== undefined && (length === undefined || body.length >= Number(length));
}

const INITIALIZE = '{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":1}}';

/** Writes half of the body and stops. */
const halfOf = (bytes: Buffer) => async (piece: (bytes: Buffer) => void, isOver: () => boolean) => {
  piece(bytes.subarray(0, bytes.length / 2));
  const started = Date.now();
  while (!isOver() && Date.now() - started < 10 * LIMITS.bodyStallMs) await sleep(20);
};

/** Writes the whole body in this many pieces. */
const steadily =
  (bytes: Buffer, pieces: number) => async (piece: (bytes: Buffer) => void, isOver: () => boolean) => {
    const size = Math.ceil(bytes.length / pieces);
    for (let at = 0; at < bytes.length && !isOver(); at += size) {
      piece(bytes.subarray(at, at + size));
      await sleep(EVERY_MS);
    }
  };

async function archive(): Promise<{ tar: Buffer; sessionId: string }> {
  const sessionId = await other.newSession();
  await other.prompt(sessionId, "/stream 2000 100");
  const tar = Buffer.from(await (await gateway.api(`/api/sessions/${sessionId}/export`)).arrayBuffer());
  await other.agent.request("session/delete", { sessionId });
  return { tar, sessionId };
}

test.each([
  ["POST /acp", ACP, Buffer.from(INITIALIZE)],
  ["a route of the API", SETTINGS, Buffer.from('{"name":"slow"}')],
])("half a body on %s is answered 408, and nobody else notices", async (_, route, body) => {
  const turn = other.prompt(session, "/stream 100 50 20");
  const answers = await Promise.all(
    Array.from({ length: 30 }, (_, n) => exchange(route, n % 2 ? body.length : "chunked", halfOf(body))),
  );
  for (const { status } of answers) expect([408, "closed"]).toContain(status);
  expect(answers.some(({ status }) => status === 408)).toBe(true);
  const said = answers.find(({ status }) => status === 408)?.body ?? "";
  expect(said).toContain(route === ACP ? "Request Timeout" : '"code":"timeout"');
  expect(streamed((await turn).updates)).toEqual(upTo(100));
});

test("half an import is answered 408 and leaves nothing", async () => {
  const { tar, sessionId } = await archive();
  const { status } = await exchange(IMPORT, tar.length, halfOf(tar));
  expect([408, "closed"]).toContain(status);
  expect((await gateway.api(`/api/sessions/${sessionId}`)).status).toBe(404);
  const again = await exchange(IMPORT, tar.length, steadily(tar, 3));
  expect(again.status).toBe(201);
});

test("a steady body is waited for, but a JSON body only up to a limit", async () => {
  const initialize = Buffer.from(INITIALIZE);
  const inTime = Math.floor(LIMITS.bodyMs / EVERY_MS / 2);
  const [slow, endless] = await Promise.all([
    exchange(ACP, initialize.length, steadily(initialize, inTime)),
    exchange(ACP, initialize.length, steadily(initialize, initialize.length)),
  ]);
  expect(slow.status).toBe(200);
  expect([408, "closed"]).toContain(endless.status);
});

test("a steady import may take any time", async () => {
  const { tar } = await archive();
  const pieces = Math.ceil((1.5 * LIMITS.bodyMs) / EVERY_MS);
  expect((await exchange(IMPORT, tar.length, steadily(tar, pieces))).status).toBe(201);
});

test("a slow body is never logged as a failure of the gateway", async () => {
  expect(gateway.log()).not.toMatch(/request failed|unhandled|uncaught/i);
});

test.each(["GET", "HEAD"])("%s with an unread body is answered as without a body", async (method) => {
  const route = { method, path: "/api/workspaces", type: "application/json" };
  const { status } = await exchange(route, 2, async (piece) => piece("{}"));
  expect(status).toBe(200);
});
