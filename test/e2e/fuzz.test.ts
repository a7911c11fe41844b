/** No message stops a gateway or disturbs its other clients. */
import { randomUUID } from "node:crypto";
import { afterAll, beforeAll, expect, test } from "vitest";
import { CLIENT_CLAIMS, HOST_CLAIMS, loadSigner } from "../../src/cli/token-signer.ts";
import { ExtensionMethod } from "../../src/protocol/extensions.ts";
import { randomFrom } from "../fixtures/random.ts";
import { Client } from "./client.ts";
import * as attackers from "./fuzz/attackers.ts";
import { eventually, type Gateway, type HostProcess, startGateway, startHost } from "./gateway.ts";
import { streamed, upTo } from "./updates.ts";

/** Every run sends other messages. `npm run fuzz` repeats a run, or sends more of them. */
const SEED = Number(process.env.FUZZ_SEED ?? Math.floor(Math.random() * 2 ** 32));
const INPUTS = Number(process.env.FUZZ_INPUTS ?? 100_000);
const TIMEOUT_MS = Math.max(300_000, 6 * INPUTS);
const OWN = "fuzz";
const ELSEWHERE = { tenant: "elsewhere", workspaces: ["quiet"] };

let gateway: Gateway;
let elsewhere: Gateway;
let quietHost: HostProcess;
beforeAll(async () => {
  // Rate limits would keep messages from being tried.
  const limits = { agentStartMs: 8000, promptsPerHour: 1e9, charsPerHour: 1e12 };
  gateway = await startGateway({ env: { ACP_EDGE_LIMITS: JSON.stringify(limits) } });
  const signer = await loadSigner(gateway.state);
  const token = await signer.sign({ ...CLIENT_CLAIMS, ...ELSEWHERE }, "1 hour");
  const hostToken = await signer.sign({ ...HOST_CLAIMS, ...ELSEWHERE }, "1 hour");
  elsewhere = { ...gateway, token, hostToken, workspace: "quiet" };
  quietHost = startHost(gateway, { name: "quiet", workspace: "quiet", token: hostToken, root: gateway.root });
  // A host on a busy machine may take longer than the few seconds that a session waits for one here.
  for (const place of [gateway, elsewhere]) await eventually(() => hasHost(place), 30_000);
});
async function hasHost({ url, workspace, token }: Gateway): Promise<boolean> {
  const headers = { authorization: `Bearer ${token}` };
  const response = await fetch(`${url}/api/workspaces/${workspace}`, { headers });
  const { hosts } = (await response.json()) as { hosts: { state: string }[] };
  return hosts.some(({ state }) => state === "connected");
}

afterAll(async () => {
  quietHost?.kill("SIGTERM");
  await quietHost?.exited;
  await gateway?.[Symbol.asyncDispose]();
});

test(`random and damaged messages harm nobody (FUZZ_SEED=${SEED})`, { timeout: TIMEOUT_MS }, async () => {
  const workerd = () => gateway.processes().filter(({ command }) => command.includes("workerd serve"));
  const before = workerd().map(({ pid }) => pid);
  expect(before).toHaveLength(1);

  await using owner = await Client.connect(gateway);
  const untouched = await owner.newSession();
  await owner.prompt(untouched, "/stream 50 100");
  const exportOf = async (id: string) => (await gateway.api(`/api/sessions/${id}/events`)).text();
  const record = await exportOf(untouched);
  const victims = [await owner.newSession(), await owner.newSession()];
  await owner.close();

  await using bystander = await Client.connect(elsewhere);
  const quiet = await bystander.newSession();

  const signer = await loadSigner(gateway.state);
  const rights = { ...CLIENT_CLAIMS, sub: "fuzz", workspaces: [OWN, gateway.workspace] };
  const target: attackers.Target = {
    url: gateway.url,
    token: await signer.sign(rights, "1 hour"),
    hostToken: await signer.sign({ ...HOST_CLAIMS, workspaces: [OWN] }, "1 hour"),
    own: OWN,
    victims,
    nobody: Array.from({ length: 8 }, () => randomUUID()),
  };
  const tally = new attackers.Tally();
  let overheard = 0;
  tally.onText = (text) => {
    if (text.includes(quiet)) overheard += 1;
  };

  let isOver = false;
  const turns = (async () => {
    do {
      const { stopReason, updates } = await bystander.prompt(quiet, "/stream 100 50 10");
      expect(stopReason).toBe("end_turn");
      expect(streamed(updates)).toEqual(upTo(100));
    } while (!isOver);
  })();
  const random = (n: number) => randomFrom(SEED + n);
  const attacks = Promise.all([
    ...[1, 2, 3, 4].map((n) => attackers.socketClient(random(n), target, tally, 0.14 * INPUTS)),
    ...[5, 6].map((n) => attackers.resumableClient(random(n), target, tally, 0.12 * INPUTS)),
    attackers.host(random(7), target, tally, 0.2 * INPUTS),
    ...[8, 9].map((n) => attackers.httpClient(random(n), target, tally, 0.01 * INPUTS)),
  ]).finally(() => {
    isOver = true;
  });
  await Promise.all([attacks, turns]);
  const log = gateway.log().split("\n");
  // The lines after a fault have its details.
  const troubles = log.flatMap((line, at) => (isTrouble(line) ? [log.slice(at, at + 6)] : []));
  console.log(`${tally.sent} messages`, tally.seen, troubles.slice(0, 20));

  expect(tally.sent).toBeGreaterThanOrEqual(INPUTS);
  expect(workerd().map(({ pid }) => pid)).toEqual(before);
  expect(Object.keys(tally.seen).filter((what) => /^(close 1011|HTTP 5|no answer)/.test(what))).toEqual([]);
  expect(troubles).toEqual([]);

  expect(overheard).toBe(0);
  // On a slow machine the bystander reads so much meanwhile that the gateway asks whether it still does.
  const strange = bystander.wire.entries.filter(
    ({ by, message: { method, params } }) =>
      by === "them" && method !== undefined && method !== ExtensionMethod.ping && params?.sessionId !== quiet,
  );
  expect(strange).toEqual([]);

  expect(await exportOf(untouched)).toBe(record);
  await using visitor = await Client.connect(gateway);
  await visitor.load(untouched);
  expect(streamed(visitor.updates(untouched))).toEqual(upTo(50));
  const fresh = await visitor.newSession();
  expect(streamed((await visitor.prompt(fresh, "/stream 20 50")).updates)).toEqual(upTo(20));
  await eventually(async () => (await gateway.api(`/api/sessions/${victims[0]}`)).ok);
});

/** The faults the gateway logs about itself, not about bad messages. */
function isTrouble(line: string): boolean {
  return /unhandled|uncaught|(request|connection|session|explain|release|place|write) failed|unreachable|interrupted|not (told|entered|recorded|signed)|fatal/i.test(
    line,
  );
}
