/** The gateway under load: many sessions, many sockets, and all of them at once after a restart. */
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { performance } from "node:perf_hooks";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { WebSocket } from "ws";
import { CLIENT_CLAIMS, loadSigner } from "../../src/cli/token-signer.ts";
import { type Gateway, startGateway } from "../e2e/gateway.ts";
import type { Comparison, Probe } from "./rights.ts";

export const loadProbes: readonly Probe[] = [
  { id: "h", title: "a turn of 100 and of 1,000 sessions at once", measure: sessionsAtOnce },
  { id: "i", title: "500 clients after a restart of workerd", measure: restart },
  { id: "j", title: "memory of workerd with 5,000 sockets, and after them", measure: sockets },
];

const SMALL_AGENT = fileURLToPath(new URL("small-agent.sh", import.meta.url));
const UPDATES = 20;
const FEW = 100;
const MANY = 1_000;
const SESSIONS_PER_SOCKET = 50;
const ROUNDS = 3;
const CLIENTS = 500;
const IDLE_SOCKETS = 5_000;
/** One person may have 1,000 sockets. */
const SOCKETS_PER_PERSON = 500;
/** Sockets that open at the same time. */
const OPENING = 50;
const RETRY_MS = 250;
const SETTLE_MS = 3_000;

/** A client that parses nothing but what it needs, so that the gateway is what is measured. */
class RawClient {
  readonly #socket: WebSocket;
  readonly #pending = new Map<number, (message: string) => void>();
  #next = 1;
  updates = 0;

  private constructor(socket: WebSocket) {
    this.#socket = socket;
    socket.on("message", (data: Buffer) => {
      const text = data.toString();
      if (text.includes('"method":"session/update"')) this.updates += 1;
      else {
        const id = Number(/"id":(\d+)/.exec(text)?.[1]);
        this.#pending.get(id)?.(text);
        this.#pending.delete(id);
      }
    });
  }

  static async open(gateway: Gateway, token: string): Promise<RawClient> {
    const socket = new WebSocket(`${gateway.wsUrl}?token=${token}`);
    await once(socket, "open");
    const client = new RawClient(socket);
    await client.request("initialize", { protocolVersion: 1 });
    return client;
  }

  async request(method: string, params: object): Promise<{ sessionId?: string }> {
    const id = this.#next++;
    const { promise, resolve } = Promise.withResolvers<string>();
    this.#pending.set(id, resolve);
    this.#socket.send(JSON.stringify({ jsonrpc: "2.0", id, method, params }));
    const { result, error } = JSON.parse(await promise) as {
      result?: { sessionId?: string };
      error?: object;
    };
    if (!result) throw new Error(`${method}: ${JSON.stringify(error)}`);
    return result;
  }

  async end(): Promise<void> {
    this.#socket.terminate();
  }
}

type Session = { client: RawClient; sessionId: string };

async function sessionsAtOnce(): Promise<Comparison[]> {
  await using gateway = await startGateway({
    agent: SMALL_AGENT,
    args: ["--isolation", "none"],
    env: { ACP_EDGE_LIMITS: JSON.stringify({ sessionsPerHour: 10 * MANY }) },
  });
  const sessions: Session[] = [];
  while (sessions.length < MANY) {
    const client = await RawClient.open(gateway, gateway.token);
    for (let i = 0; i < SESSIONS_PER_SOCKET; i++) {
      const { sessionId = "" } = await client.request("session/new", { cwd: gateway.root, mcpServers: [] });
      sessions.push({ client, sessionId });
    }
  }
  const clients = new Set(sessions.map(({ client }) => client));
  const turns = async (count: number): Promise<number> => {
    const before = [...clients].reduce((sum, { updates }) => sum + updates, 0);
    const started = performance.now();
    await Promise.all(
      sessions
        .slice(0, count)
        .map(({ client, sessionId }) =>
          client.request("session/prompt", { sessionId, prompt: [{ type: "text", text: "go" }] }),
        ),
    );
    const ms = performance.now() - started;
    const received = [...clients].reduce((sum, { updates }) => sum + updates, 0) - before;
    if (received !== count * UPDATES) throw new Error(`${received} updates of ${count * UPDATES}`);
    return ms;
  };
  const rounds: number[][] = [];
  for (let round = 0; round < ROUNDS; round++) rounds.push([await turns(FEW), await turns(MANY)]);
  for (const client of clients) await client.end();
  const what = [`${FEW} sessions`, `${MANY} sessions`];
  return [{ id: "h", title: `one turn of ${UPDATES} updates of each session`, what, rounds }];
}

/** Every client tries again as long as the gateway is away; a refusal of any kind fails the measurement. */
async function restart(): Promise<Comparison[]> {
  await using gateway = await startGateway();
  const open = async (): Promise<RawClient> => {
    for (;;) {
      try {
        return await RawClient.open(gateway, gateway.token);
      } catch (error) {
        if (/Unexpected server response/.test(String(error))) throw error;
        await sleep(RETRY_MS * Math.random());
      }
    }
  };
  const rounds: number[][] = [];
  for (let round = 0; round < ROUNDS; round++) {
    const clients = await inTurns(CLIENTS, open);
    gateway.killWorkerd();
    const killed = performance.now();
    const first = open().then(() => performance.now() - killed);
    const all = Promise.all(Array.from({ length: CLIENTS }, open));
    const again = await all;
    rounds.push([await first, performance.now() - killed]);
    for (const client of [...clients, ...again]) await client.end();
  }
  const what = ["until one client is served", `until ${CLIENTS} clients are served`];
  return [{ id: "i", title: "kill -9 of workerd", what, rounds }];
}

async function sockets(): Promise<Comparison[]> {
  await using gateway = await startGateway();
  const signer = await loadSigner(gateway.state);
  const rounds: number[][] = [];
  for (let round = 0; round < ROUNDS; round++) {
    const before = residentMegabytes(gateway);
    const tokens = await Promise.all(
      Array.from({ length: IDLE_SOCKETS / SOCKETS_PER_PERSON }, (_, person) =>
        signer.sign({ ...CLIENT_CLAIMS, sub: `person-${person}` }, "1 hour"),
      ),
    );
    const clients = await inTurns(IDLE_SOCKETS, (i) =>
      RawClient.open(gateway, tokens[i % tokens.length] as string),
    );
    await sleep(SETTLE_MS);
    const open = residentMegabytes(gateway);
    for (const client of clients) await client.end();
    await sleep(SETTLE_MS);
    rounds.push([before, open, residentMegabytes(gateway)]);
  }
  const what = ["before (MB)", `with ${IDLE_SOCKETS} sockets (MB)`, "when they are gone (MB)"];
  return [{ id: "j", title: "resident memory of workerd, round after round", what, rounds }];
}

function residentMegabytes(gateway: Gateway): number {
  const workerd = gateway.processes().find(({ command }) => command.includes("workerd serve"));
  const kilobytes = /VmRSS:\s+(\d+)/.exec(readFileSync(`/proc/${workerd?.pid}/status`, "utf8"))?.[1];
  return Number(kilobytes) / 1024;
}

async function inTurns<T>(count: number, work: (index: number) => Promise<T>): Promise<T[]> {
  const results: T[] = [];
  while (results.length < count) {
    const size = Math.min(OPENING, count - results.length);
    const from = results.length;
    results.push(...(await Promise.all(Array.from({ length: size }, (_, i) => work(from + i)))));
  }
  return results;
}
