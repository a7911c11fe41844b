/** The largest frame fits the isolate in which Cloudflare runs the gateway's objects, with room for others. */
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import type { SessionUpdate } from "@agentclientprotocol/sdk";
import { afterAll, beforeAll, expect, test } from "vitest";
import { openReconnectingLink } from "../../src/cli/gateway/reconnecting-link.ts";
import { DEFAULT_LIMITS } from "../../src/protocol/limits.ts";
import { Client } from "./client.ts";
import { type Gateway, startGateway } from "./gateway.ts";
import { textOf } from "./updates.ts";

/**
 * Half of an isolate of Cloudflare: other objects live in it too. V8 ends a process whose heap needs more than it may
 * have.
 */
const HEAP_MB = 64;

/** A gateway that takes longer for a frame never delivers it. */
const PATIENCE_MS = 15_000;

/** The frame around the text has a few hundred characters. */
const CHARS = DEFAULT_LIMITS.frameChars - 1000;

const AGENT = fileURLToPath(new URL("fixtures/large-agent.ts", import.meta.url));

let gateway: Gateway;
let sessionId: string;
let clients: Client[];
let links: ResumableReader[];
const opened = new AsyncDisposableStack();

beforeAll(async () => {
  const flags = `--max-heap-size=${HEAP_MB} --trace-gc`;
  gateway = await startGateway({
    agent: `${process.execPath} ${AGENT}`,
    env: { MINIFLARE_WORKERD_V8_FLAGS: flags },
  });
  opened.use(gateway);
  const first = opened.use(await Client.connect(gateway));
  sessionId = await first.newSession();
  clients = [first];
  for (const over of [undefined, undefined, "http", "http", "http"] as const) {
    const client = opened.use(await Client.connect(gateway, over ? { over } : {}));
    await client.load(sessionId);
    clients.push(client);
  }
  links = [new ResumableReader(), new ResumableReader()];
  for (const link of links) {
    opened.defer(() => link.close());
    await link.loaded;
  }
});
afterAll(() => opened.disposeAsync());

test("the largest frame goes from an agent to eight clients within the memory of an isolate", async () => {
  const [first] = clients as [Client];
  await expectFits(() => [
    first.prompt(sessionId, `say ${CHARS}`),
    ...clients.map((client) => client.updated(sessionId, (update) => textOf([update]).length === CHARS)),
    ...links.map((link) => link.got(CHARS)),
  ]);
});

test("the largest frame goes from a client to the agent and seven clients within the memory of an isolate", async () => {
  const [first, ...others] = clients as [Client, ...Client[]];
  const isEcho = (update: SessionUpdate) =>
    update.sessionUpdate === "user_message_chunk" &&
    update.content.type === "text" &&
    update.content.text.length === CHARS;
  await expectFits(() => [
    first.prompt(sessionId, `漢${"x".repeat(CHARS - 1)}`),
    ...clients.map((client) => client.updated(sessionId, (update) => textOf([update]) === String(CHARS))),
    ...others.map((client) => client.updated(sessionId, isEcho)),
    ...links.map((link) => link.got(CHARS)),
  ]);
});

/** Expects that the work ends while the gateway has the memory of an isolate, and that V8 has seen the frame. */
async function expectFits(begin: () => Promise<unknown>[]): Promise<void> {
  const before = gateway.log().length;
  const log = () => gateway.log().slice(before);
  const done = new AbortController();
  try {
    const failed = failure(log, done.signal);
    // A client that loses its connection may notice before the log has the reason.
    await Promise.race([Promise.all(begin()).catch(() => failed), failed]);
  } finally {
    done.abort();
  }
  expect(log()).not.toMatch(DIED);
  const live = [...log().matchAll(COLLECTION)].map(([, megabytes]) => Number(megabytes));
  // The frame itself, at two bytes per character: otherwise the figures are not those of the gateway's isolate.
  expect(Math.max(...live)).toBeGreaterThan((2 * CHARS) / 1024 ** 2);
  expect(Math.max(...live)).toBeLessThan(HEAP_MB);
}

/** Rejects when the gateway runs out of memory, or when nothing happens for long. */
async function failure(log: () => string, signal: AbortSignal): Promise<never> {
  const deadline = Date.now() + PATIENCE_MS;
  while (Date.now() < deadline && !DIED.test(log())) await sleep(20, undefined, { signal });
  const figures = log()
    .split("\n")
    .filter((line) => /Mark-Compact|heap limit/.test(line));
  const what = DIED.test(log()) ? `does not fit ${HEAP_MB} MB` : `did not arrive within ${PATIENCE_MS} ms`;
  throw new Error(`The frame ${what}:\n${figures.slice(-5).join("\n")}`);
}

/** V8's report of a full garbage collection: the size of the heap before, and of the part that is in use after. */
const COLLECTION = /Mark-Compact[^\n]*? -> ([\d.]+) \(/g;
const DIED = /Reached heap limit|workerd died/;

/** A client on the resumable wire, which counts the characters that it gets. */
class ResumableReader {
  readonly loaded: Promise<void>;
  readonly #link: ReturnType<typeof openReconnectingLink>["link"];
  #arrived = Promise.withResolvers<void>();
  #wanted = Number.POSITIVE_INFINITY;

  constructor() {
    const loaded = Promise.withResolvers<void>();
    this.loaded = loaded.promise;
    const { link } = openReconnectingLink({
      url: gateway.wsUrl,
      token: async () => gateway.token,
      ...{ waitMs: PATIENCE_MS, heartbeatMs: PATIENCE_MS, limits: DEFAULT_LIMITS, log: () => {} },
      frames: (lines) => {
        for (const line of lines) {
          if (line.length < 10_000 && JSON.parse(line).id === 2) loaded.resolve();
          if (line.length >= this.#wanted) this.#arrived.resolve();
        }
        return undefined;
      },
      unrestored: () => {},
    });
    this.#link = link;
    const params = { sessionId, cwd: gateway.root, mcpServers: [] };
    void link.send([
      '{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":1,"clientCapabilities":{}}}',
      JSON.stringify({ jsonrpc: "2.0", id: 2, method: "session/load", params }),
    ]);
  }

  /** Resolves when the next frame of so many characters has come. */
  got(chars: number): Promise<void> {
    this.#wanted = chars;
    this.#arrived = Promise.withResolvers();
    return this.#arrived.promise;
  }

  close(): void {
    this.#link.close();
  }
}
