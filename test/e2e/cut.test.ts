/**
 * The network between host and gateway vanishes for longer than either end takes to notice. All times are a twelfth of
 * the real ones by default; CUT_SCALE=1 uses the real ones, with a cut of 60 seconds.
 */
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from "vitest";
import { DEFAULT_TIMING } from "../../src/node/timing.ts";
import { DEFAULT_LIMITS } from "../../src/protocol/limits.ts";
import { BadNetwork } from "./bad-network.ts";
import { Client, type LogEvent, loggedUpdates, readLog } from "./client.ts";
import {
  eventually,
  type Gateway,
  type HostProcess,
  startGateway,
  startHost,
  withWorkspace,
} from "./gateway.ts";
import { streamed, textOf, upTo } from "./updates.ts";

const SCALE = Number(process.env.CUT_SCALE ?? 1 / 12);
const CUT_MS = 60_000 * SCALE;
const PATIENCE_MS = 3 * CUT_MS + 30_000;

const scaled = (times: Record<string, number>) =>
  JSON.stringify(Object.fromEntries(Object.entries(times).map(([name, ms]) => [name, ms * SCALE])));

let gateway: Gateway;
let network: BadNetwork;
let host: HostProcess;

beforeAll(async () => {
  const { hostGraceMs, hostSilentMs, probeMs } = DEFAULT_LIMITS;
  const limits = scaled({ hostGraceMs, hostSilentMs, hostCheckMs: hostSilentMs, probeMs });
  gateway = await startGateway({ env: { ACP_EDGE_LIMITS: limits } });
});
afterAll(() => gateway?.[Symbol.asyncDispose]());

let workspace: Gateway;
let workspaces = 0;
beforeEach(async () => {
  workspaces += 1;
  workspace = await withWorkspace(gateway, `cut-${workspaces}`);
  network = await BadNetwork.to(gateway.url);
  const { pingEveryMs, pongWithinMs, dialMs, retryMaxMs } = DEFAULT_TIMING;
  host = startHost(workspace, {
    name: "far",
    workspace: workspace.workspace,
    token: workspace.hostToken,
    root: gateway.root,
    url: network.url(gateway.url),
    args: ["--drain", "0"],
    env: { ACP_EDGE_TIMING: scaled({ pingEveryMs, pongWithinMs, dialMs, retryMaxMs }) },
  });
  await eventually(async () => (await hostState()) === "connected");
});
afterEach(async () => {
  host.kill("SIGTERM");
  await host.exited;
  await network[Symbol.asyncDispose]();
});

/** This stream lasts longer than the cut. */
const COUNT = 400;
const STREAM = `/stream ${COUNT} 60 ${Math.round((2 * CUT_MS) / COUNT)}`;

test("[I6] a turn continues after the network was gone for longer than the heartbeat", {
  timeout: PATIENCE_MS,
}, async () => {
  await using client = await Client.connect(workspace);
  const session = await client.newSession();
  const turn = client.prompt(session, STREAM);
  await client.hears(session, "000020 ");
  network.hold();
  await new Promise((resolve) => setTimeout(resolve, CUT_MS));
  const cutOff = streamed(client.updates(session)).length;
  network.release();
  const { stopReason, updates } = await turn;
  expect(stopReason).toBe("end_turn");
  expect(streamed(updates)).toEqual(upTo(COUNT));
  expect(cutOff, "the cut should have come in the middle").toBeLessThan(COUNT / 2);

  const log = await readLog(workspace, session);
  expect(streamed(loggedUpdates(log))).toEqual(upTo(COUNT));
  expect(kinds(log)).toContain("runtime.reconnected");
  expect(kinds(log)).not.toContain("runtime.paused");
  expect(kinds(log).filter((kind) => kind === "queue.owner.started")).toHaveLength(1);
  expect(textOf(client.updates(session))).toBe(textOf(loggedUpdates(log)));
  expect(await hostState()).toBe("connected");
});

test("a host that is gone past the grace pauses its session, which continues when the host is back", {
  timeout: PATIENCE_MS,
}, async () => {
  const change = await workspace.api(`/api/workspaces/${workspace.workspace}`, {
    method: "PUT",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ hostGraceMs: 200 }),
  });
  expect(change.status).toBe(200);
  await using client = await Client.connect(workspace);
  const session = await client.newSession();
  const turn = client.prompt(session, STREAM);
  await client.hears(session, "000020 ");
  network.hold();
  await eventually(
    async () => kinds(await readLog(workspace, session)).includes("runtime.paused"),
    PATIENCE_MS,
  );
  expect(await hostState()).toBe("gone");
  const view = (await (await workspace.api(`/api/sessions/${session}`)).json()) as { state: string };
  expect(view.state).toBe("paused");
  network.release();
  const { stopReason, updates } = await turn;
  expect(stopReason).toBe("end_turn");
  expect(streamed(updates)).toEqual(upTo(COUNT));
  const log = await readLog(workspace, session);
  expect(kinds(log)).not.toContain("turn.failed");
  expect(kinds(log).filter((kind) => kind === "queue.owner.started")).toHaveLength(1);
  expect(updates.map(eventOf).filter(Boolean)).toEqual(["runtime.paused", "runtime.reconnected"]);
});

function kinds(log: LogEvent[]): string[] {
  return log.map(({ kind }) => kind);
}

function eventOf(update: { _meta?: Record<string, unknown> | null }): unknown {
  return update._meta?.["acp-edge/event"];
}

async function hostState(): Promise<string | undefined> {
  const response = await workspace.api(`/api/workspaces/${workspace.workspace}`);
  return ((await response.json()) as { hosts: { state: string }[] }).hosts[0]?.state;
}
