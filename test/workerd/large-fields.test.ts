/**
 * No field of any message, however large, ends an object, or reaches SQLite in a form that it refuses. Each run tries
 * some fields; `npm run fuzz` tries more of them, or all.
 */
import { runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { encodeLink } from "../../src/protocol/host-wire.ts";
import * as corpus from "../e2e/fuzz/corpus.ts";
import { fieldsOf, largeMessages } from "../e2e/fuzz/large-fields.ts";
import type { Json } from "../fixtures/json.ts";
import { randomFrom } from "../fixtures/random.ts";
import {
  connectionStub,
  openSession,
  prompt,
  sessionStub,
  workspaceName,
  workspaceStub,
} from "./fixtures.ts";
import { setLimits } from "./limits.ts";
import type { Agent } from "./peers/agent.ts";
import { permissionRequest } from "./peers/agent.ts";
import { Client } from "./peers/client.ts";
import { Host } from "./peers/host.ts";
import { dialHost, Peer } from "./peers/peer.ts";

const SEED = Number(env.FUZZ_SEED ?? Math.floor(Math.random() * 2 ** 32));
const FIELDS = env.FUZZ_FIELDS === "all" ? Number.POSITIVE_INFINITY : Number(env.FUZZ_FIELDS ?? 8);
const TIMEOUT_MS = FIELDS > 100 ? 1_200_000 : 180_000;

/** Large forms of the messages: of the given share of the run's fields, or all of them. */
function large(messages: readonly string[], share = 1): Iterable<string> {
  return largeMessages(fieldsOf(messages), Math.ceil(FIELDS * share), randomFrom(SEED));
}

/** The faults that the objects log about themselves. */
const faults: string[] = [];

beforeEach(() => {
  setLimits({ charsPerHour: 1e15, promptsPerHour: 1e9, sessionsPerHour: 1e9, openRequests: 1e6 });
  faults.length = 0;
  vi.spyOn(console, "log").mockImplementation(() => {});
  vi.spyOn(console, "warn").mockImplementation(() => {});
  vi.spyOn(console, "error").mockImplementation((what: unknown, details?: unknown) => {
    if (FAULT.test(String(what))) faults.push(`${what} ${JSON.stringify(details)}`);
  });
});
afterEach(() => vi.restoreAllMocks());

const FAULT = /failed|not recorded|unreachable|not (delivered|handed over|registered)/;

type Watched = { readonly object: DurableObjectStub; readonly instance: unknown };

/** Remembers the running object: an object that was aborted is another one. */
async function watch(object: DurableObjectStub): Promise<Watched> {
  return { object, ...(await runInDurableObject(object, (instance) => ({ instance }))) };
}

/** The message is the reason in a failure, shortened to the part around the large field. */
async function expectUnharmed(message: string, ...watched: readonly Watched[]): Promise<void> {
  const shown = message.replaceAll(/x{9,}|é{9,}|\[{9,}|\]{9,}/g, "…").slice(0, 2000);
  expect(faults, shown).toEqual([]);
  for (const { object, instance } of watched)
    expect(await runInDurableObject(object, (now) => now === instance), shown).toBe(true);
}

describe(`FUZZ_SEED=${SEED}: a large field harms no object`, () => {
  test("in a message of a client", { timeout: TIMEOUT_MS }, async () => {
    let opened = await served();
    let client = await connect(opened.workspace);
    let i = 0;
    for (const text of large(corpus.allClientFrames(SESSION), 2)) {
      i += 1;
      // A long history takes no more prompts.
      if (i % 16 === 0) {
        await opened.end();
        opened = await served();
        client = await connect(opened.workspace);
      }
      const message = text.replaceAll(SESSION, opened.sessionId);
      client.peer.send(message);
      if (!(await isThrough(client.peer, opened.sessionId))) client = await connect(opened.workspace);
      else await expectUnharmed(message, client.connection);
      await expectUnharmed(message, opened.session);
    }
    await opened.end();
  });

  test("in a client's answer to an agent", { timeout: TIMEOUT_MS }, async () => {
    const { agent, client, sessionId } = await openSession();
    const session = await watch(sessionStub(sessionId));
    client.call("session/prompt", prompt(sessionId));
    await agent.line();
    let id = 100;
    for (const message of large(corpus.answers("client", "session/request_permission", "asked"))) {
      // An id that is too long closes the connection (1008), so this client could answer nothing more.
      if (!message.includes('"asked"')) continue;
      id += 1;
      agent.items(permissionRequest(id));
      const asked = await take(client, "session/request_permission");
      client.send(message.replace('"asked"', () => JSON.stringify(asked.id)));
      client.notify("_vendor/after", { sessionId });
      await lineOf(agent, "_vendor/after");
      await expectUnharmed(message, session);
    }
  });

  test("in an item of an agent", { timeout: TIMEOUT_MS }, async () => {
    let opened = await openSession();
    let i = 0;
    for (const message of large(corpus.allHostItems("agent-session"), 2)) {
      i += 1;
      if (i % 8 === 0) opened = await openSession();
      const { agent, sessionId } = opened;
      const session = await watch(sessionStub(sessionId));
      agent.items(message.replaceAll("\n", " "));
      await agent.durable();
      await expectUnharmed(message, session);
      if (message.startsWith('["exit"')) opened = await openSession();
    }
  });

  const asked: Record<string, object> = {
    "session/prompt": { prompt: [{ type: "text", text: "go" }] },
    "session/set_mode": { modeId: "m" },
    "session/set_config_option": { configId: "c", value: "v" },
  };
  test.each(Object.keys(asked))("in an agent's answer to %s", { timeout: TIMEOUT_MS }, async (method) => {
    const { agent, client, sessionId } = await openSession();
    const session = await watch(sessionStub(sessionId));
    for (const message of large(corpus.answers("agent", method, "asked"), 0.25)) {
      const id = client.call(method, { sessionId, ...asked[method] });
      const line = await lineOf(agent, method);
      agent.items(message.replace('"asked"', String(line.id)));
      // An answer whose id is large is none: the agent gives another one.
      agent.items(JSON.stringify({ jsonrpc: "2.0", id: line.id, result: { stopReason: "end_turn" } }));
      await agent.durable();
      await client.until(id);
      await expectUnharmed(message, session);
    }
  });

  test.each(["initialize", "session/new"])(
    "in an agent's answer to %s",
    { timeout: TIMEOUT_MS },
    async (method) => {
      const workspace = workspaceName();
      const host = await Host.join(workspace);
      const watched = await watch(workspaceStub(workspace));
      for (const message of large(corpus.answers("agent", method, "asked"), 0.25)) {
        const client = await Client.open(workspace);
        client.call("session/new", { cwd: "/", mcpServers: [] });
        const agent = await host.agent();
        const session = await watch(sessionStub(agent.sessionId));
        const id = method === "initialize" ? 0 : (await lineOf(agent, "session/new")).id;
        agent.items(message.replace('"asked"', String(id)));
        await agent.durable();
        await expectUnharmed(message, session, watched);
        client.socket.close(1000);
      }
    },
  );

  test("in a message of a host to its workspace", { timeout: TIMEOUT_MS }, async () => {
    const workspace = workspaceName();
    await Host.join(workspace);
    const watched = await watch(workspaceStub(workspace));
    for (const message of large(corpus.controlMessages(crypto.randomUUID()))) {
      const control = new Peer(await dialHost(workspace, "/host/control"));
      const isHello = message.includes('"t":"hello"');
      if (!isHello) control.send(JSON.stringify(corpus.hostHello(`h-${crypto.randomUUID()}`)));
      control.send(message);
      control.send("no message");
      await control.closed;
      await expectUnharmed(message, watched);
    }
  });

  test("in the head of a host's message to a session", { timeout: TIMEOUT_MS }, async () => {
    const { sessionId, workspace } = await openSession();
    const session = await watch(sessionStub(sessionId));
    for (const head of large(corpus.hostHeads(), 0.5)) {
      const link = new Peer(await dialHost(workspace, `/host/sessions/${sessionId}`));
      link.send(`${head}\n${encodeLink({ t: "lines", first: 1 })}`);
      link.send("no message");
      await link.closed;
      await expectUnharmed(head, session);
    }
  });
});

async function connect(workspace: string) {
  const response = await Client.upgrade(workspace);
  const peer = new Client(response.webSocket as WebSocket);
  const connection = await watch(connectionStub(response.headers.get("Acp-Connection-Id") ?? ""));
  await peer.request("initialize", { protocolVersion: 1, clientCapabilities: {} });
  return { peer, connection };
}

/** A session whose agent answers everything that it is asked, until the end. */
async function served() {
  const { agent, sessionId, workspace } = await openSession();
  const session = await watch(sessionStub(sessionId));
  const serving = serve(agent);
  const end = async () => {
    agent.link.socket.close(1000);
    await serving;
  };
  return { sessionId, workspace, session, end };
}

/** Stands for the id of the session in the messages. */
const SESSION = crypto.randomUUID();

/** Whether the session has handled all that the client has sent. False: the client has lost its socket, not by a fault. */
async function isThrough(client: Client, sessionId: string): Promise<boolean> {
  const end = await Promise.race([
    client.request("session/resume", { sessionId, cwd: "/", mcpServers: [] }).then(() => undefined),
    client.closed,
  ]);
  expect(end?.code).not.toBe(1011);
  return end === undefined;
}

async function serve(agent: Agent): Promise<void> {
  for (;;) {
    const line = await Promise.race([agent.line(), agent.link.closed.then(() => undefined)]);
    if (!line) return;
    if (line.id !== undefined && line.method !== undefined) agent.answer(line, { stopReason: "end_turn" });
  }
}

async function lineOf(agent: Agent, method: string) {
  for (;;) {
    const line = await agent.line();
    if (line.method === method) return line;
  }
}

async function take(client: Client, method: string): Promise<Json> {
  for (;;) {
    const message = await client.takeJson();
    if (message.method === method) return message;
  }
}
