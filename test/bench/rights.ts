/** The cost of refusals and revocations, measured on the gateway alone, each beside its baseline. */
import { randomUUID } from "node:crypto";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { performance } from "node:perf_hooks";
import { setTimeout as sleep } from "node:timers/promises";
import { WebSocket } from "ws";
import { CLIENT_CLAIMS, loadSigner, type TokenClaims } from "../../src/cli/token-signer.ts";
import { type Gateway, startGateway } from "../e2e/gateway.ts";
import { BenchClient, type Load } from "./client.ts";
import { overWebSocket } from "./contender.ts";
import { median, quantile } from "./stats.ts";

/** The times of several operations in each of many rounds; the first one is the baseline. */
export type Comparison = { id: string; title: string; what: readonly string[]; rounds: readonly number[][] };

export type Probe = { id: string; title: string; measure(): Promise<Comparison[]> };

export const probes: readonly Probe[] = [
  { id: "f", title: "what a refusal tells: unknown ids and those of others", measure: refusals },
  { id: "g", title: "revoking a subject with open sockets", measure: revocation },
];

const SESSIONS = 24;
const HISTORY: Load = { count: 2_000, size: 120 };
const SOCKETS = 100;
const REVOCATIONS = 10;

/** Sessions of some length on a gateway that has just started, so none of them is in memory. */
async function refusals(): Promise<Comparison[]> {
  const state = mkdtempSync(join(tmpdir(), "acp-edge-bench-"));
  try {
    const { sessions, port } = await manySessions(state);
    const unknown = new Map(sessions.map((session) => [session, randomUUID()]));
    await using gateway = await startGateway({ state, port });
    const ask = await asking(gateway);
    const kinds: Record<string, (session: string) => Promise<number>> = {
      "not there": (session) => ask(unknown.get(session) as string, {}, 404),
      "another tenant's": (session) => ask(session, { tenant: "other" }, 404),
      "another workspace's": (session) => ask(session, { workspaces: ["elsewhere"] }, 404),
      "one's own": (session) => ask(session, {}, 200),
    };
    // A request that wakes no object warms up the connection, so that the first of the round is not slower.
    await ask(randomUUID(), {}, 404);
    const what = Object.keys(kinds);
    const inTurn = async () => {
      const rounds: number[][] = [];
      // The owner comes last, because the session is in memory afterwards.
      for (const session of sessions) {
        const times: number[] = [];
        for (const kind of Object.values(kinds)) times.push(await kind(session));
        rounds.push(times);
      }
      return rounds;
    };
    return [
      { id: "f", title: "first request for each session since the start", what, rounds: await inTurn() },
      { id: "f", title: "the same again", what, rounds: await inTurn() },
    ];
  } finally {
    rmSync(state, { recursive: true, force: true, maxRetries: 3 });
  }
}

async function manySessions(state: string): Promise<{ sessions: string[]; port: number }> {
  await using gateway = await startGateway({ state });
  const client = await BenchClient.open(overWebSocket(`${gateway.wsUrl}?token=${gateway.token}`));
  const sessions: string[] = [];
  for (let i = 0; i < SESSIONS; i++) {
    const session = await client.newSession(gateway.root);
    await client.stream(session, HISTORY);
    await client.closeSession(session);
    sessions.push(session);
  }
  await client.close();
  return { sessions, port: Number(new URL(gateway.url).port) };
}

/** Milliseconds until a session is shown, or refused, to a caller whose token differs from the right one in `claims`. */
async function asking(gateway: Gateway) {
  const signer = await loadSigner(gateway.state);
  const tokens = new Map<string, Promise<string>>();
  return async (session: string, claims: Partial<TokenClaims>, expected: number): Promise<number> => {
    const key = JSON.stringify(claims);
    if (!tokens.has(key)) tokens.set(key, signer.sign({ ...CLIENT_CLAIMS, ...claims }, "1 hour"));
    const headers = { authorization: `Bearer ${await tokens.get(key)}` };
    const started = performance.now();
    const response = await fetch(`${gateway.url}/api/sessions/${session}`, { headers });
    await response.arrayBuffer();
    const ms = performance.now() - started;
    if (response.status !== expected) throw new Error(`${response.status} where ${expected} was expected`);
    return ms;
  };
}

/**
 * The time from the revocation until the last of the subject's clients is closed, beside a list that changes nothing.
 */
async function revocation(): Promise<Comparison[]> {
  await using gateway = await startGateway();
  const signer = await loadSigner(gateway.state);
  const rounds: number[][] = [];
  for (let i = 0; i < REVOCATIONS; i++) {
    const subject = `subject-${i}`;
    const token = await signer.sign({ ...CLIENT_CLAIMS, sub: subject }, "1 hour");
    const sockets = await Promise.all(Array.from({ length: SOCKETS }, () => openSocket(gateway, token)));
    const list = performance.now();
    await (await gateway.api("/api/revocations")).arrayBuffer();
    const order = performance.now();
    const headers = { "content-type": "application/json" };
    const body = JSON.stringify({ subject });
    const answer = gateway.api("/api/revocations", { method: "POST", headers, body });
    // The event `close` comes only after the TCP connection has ended.
    while (sockets.some(({ readyState }) => readyState === WebSocket.OPEN)) await sleep(1);
    const end = performance.now();
    if ((await answer).status !== 201) throw new Error("Not revoked");
    rounds.push([order - list, end - order]);
  }
  const what = ["listing revocations", `revoking, until ${SOCKETS} clients have heard`];
  return [{ id: "g", title: `a subject with ${SOCKETS} sockets`, what, rounds }];
}

async function openSocket(gateway: Gateway, token: string): Promise<WebSocket> {
  const socket = new WebSocket(`${gateway.wsUrl}?token=${token}`);
  await once(socket, "open");
  const initialize = { jsonrpc: "2.0", id: 0, method: "initialize", params: { protocolVersion: 1 } };
  socket.send(JSON.stringify(initialize));
  await once(socket, "message");
  return socket;
}

export function comparisonTable({ id, title, what, rounds }: Comparison): string {
  const width = Math.max(...what.map((name) => name.length));
  const heads = ["ms", "p95 ms", `× ${what[0]}`];
  const pad = (cells: string[]) =>
    cells.map((cell, i) => cell.padStart(Math.max(9, (heads[i]?.length ?? 0) + 2))).join("");
  const lines = what.map((name, i) => {
    const times = rounds.map((round) => round[i] as number);
    const ratios = rounds.map((round) => (round[i] as number) / (round[0] as number));
    const range = `(${quantile(ratios, 0.05).toFixed(2)} – ${quantile(ratios, 0.95).toFixed(2)})`;
    const cells = [median(times).toFixed(3), quantile(times, 0.95).toFixed(3), median(ratios).toFixed(2)];
    return `  ${name.padEnd(width)}${pad(cells)}  ${range}`;
  });
  return [`(${id}) ${title}`, `  ${"".padEnd(width)}${pad(heads)}  (5 – 95 %)`, ...lines].join("\n");
}
