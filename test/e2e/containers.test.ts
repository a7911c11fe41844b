/**
 * Workspaces that start their hosts themselves. Everything is as with containers, except that a process with the
 * container's environment stands in for the container.
 */
import { chmodSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { decodeJwt } from "jose";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { WebSocket } from "ws";
import { CLIENT_CLAIMS, loadSigner } from "../../src/cli/token-signer.ts";
import { Client, loggedUpdates, type RpcError, readLog } from "./client.ts";
import { alive, eventually, type Gateway, startGateway, withWorkspace } from "./gateway.ts";
import { streamed, textOf, upTo } from "./updates.ts";

const HOST = fileURLToPath(new URL("../../src/host/main.ts", import.meta.url));
const LIMITS = {
  agentStartMs: 14_000,
  containerStartMs: 9_000,
  containerBackoffMs: 300,
  containerBackoffMaxMs: 2_000,
  containerDrainMs: 20_000,
  containerTokenMs: 8_000,
};
const IDLE_MS = 1_500;

let gateway: Gateway;
let directory: string;
let command: string;

beforeAll(async () => {
  directory = mkdtempSync(join(tmpdir(), "acp-edge-containers-"));
  command = join(directory, "container.sh");
  // The image's command, which records each start and its token; if told to, it ends at once or never dials in.
  writeFileSync(
    command,
    `#!/bin/sh
echo "$ACP_EDGE_WORKSPACE $$" >> '${join(directory, "starts")}'
echo "$ACP_EDGE_HOST_TOKEN" > '${directory}'"/token-$$"
if grep -qx "$ACP_EDGE_WORKSPACE" '${join(directory, "broken")}'; then exit 5; fi
if [ "$ACP_EDGE_WORKSPACE" = silent ]; then exec sleep 1000; fi
exec '${process.execPath}' '${HOST}'
`,
    { mode: 0o755 },
  );
  for (const file of ["starts", "broken"]) writeFileSync(join(directory, file), "");
  gateway = await startGateway({
    args: ["--on-demand", "--agents", "demo"],
    env: {
      ACP_EDGE_LIMITS: JSON.stringify(LIMITS),
      ACP_EDGE_CONTAINER_COMMAND: `'${command}'`,
      DEMO_AGENT_STATE: join(directory, "agents"),
    },
  });
});
afterAll(async () => {
  await gateway?.[Symbol.asyncDispose]();
  rmSync(directory, { recursive: true, force: true });
});

/** The process ids of the hosts that were started for a workspace, in order. */
function starts(workspace: string): number[] {
  const lines = readFileSync(join(directory, "starts"), "utf8").split("\n");
  return lines.filter((line) => line.startsWith(`${workspace} `)).map((line) => Number(line.split(" ")[1]));
}

type View = {
  hosts: { name: string; state: string; root: string }[];
  containerState: { state: string; failures: number; reason: string | null } | null;
};

async function view(of: Gateway): Promise<View> {
  return (await (await of.api(`/api/workspaces/${of.workspace}`)).json()) as View;
}

async function workspace(name: string, container: object = {}): Promise<Gateway> {
  const own = await withWorkspace(gateway, name);
  const response = await own.api(`/api/workspaces/${name}`, {
    method: "PUT",
    headers: { "content-type": "application/json" },
    body: JSON.stringify({ container }),
  });
  expect(response.status, await response.clone().text()).toBe(200);
  return own;
}

/** The token that a host was started with, as its command recorded it. */
function tokenOf(pid: number): string {
  return readFileSync(join(directory, `token-${pid}`), "utf8").trim();
}

async function kinds(of: Gateway, session: string): Promise<string[]> {
  return (await readLog(of, session)).map(({ kind }) => kind);
}

describe("a workspace without a host", () => {
  test("gets one for a client, pauses its sessions when nobody needs it, and gets one again", async () => {
    const own = await workspace("sleepy", { sleepAfterMs: IDLE_MS });
    expect(await view(own)).toMatchObject({ hosts: [], containerState: { state: "asleep" } });

    await using client = await Client.connect(own);
    const [initialized] = client.wire.entries.filter(({ by }) => by === "them");
    expect(initialized?.message.result).toMatchObject({ agentInfo: { name: expect.stringMatching(/demo/) } });
    const session = await client.newSession();
    const first = await client.prompt(session, "/echo one");
    expect(textOf(first.updates)).toContain("one");
    expect(starts(own.workspace)).toHaveLength(1);

    const [pid] = starts(own.workspace) as [number];
    await eventually(async () => (await view(own)).containerState?.state === "asleep", 30_000);
    expect(alive([pid])).toEqual([]);
    expect((await view(own)).containerState).toMatchObject({ failures: 0, reason: null });
    expect(await kinds(own, session)).toContain("queue.owner.drained");

    const second = await client.prompt(session, "/echo two");
    expect(second.stopReason).toBe("end_turn");
    expect(textOf(second.updates)).toContain("two");
    expect(starts(own.workspace)).toHaveLength(2);
    // The stand-in keeps its disk, so the agent knows the session.
    expect(await kinds(own, session)).toContain("session.loaded");
    expect((await kinds(own, session)).filter((kind) => kind.startsWith("turn.failed"))).toEqual([]);
  });

  test("keeps its container for as long as a turn takes", async () => {
    const own = await workspace("busy", { sleepAfterMs: 1_000 });
    await using client = await Client.connect(own);
    const session = await client.newSession();
    const { stopReason } = await client.prompt(session, "/stream 100 20 40");
    expect(stopReason).toBe("end_turn");
    expect(starts(own.workspace)).toHaveLength(1);
  });

  test("starts no container for a client that may only read", async () => {
    const own = await workspace("watched");
    const claims = { ...CLIENT_CLAIMS, workspaces: ["watched"], scopes: ["session:read" as const] };
    const token = await (await loadSigner(gateway.state)).sign(claims, "1 hour");
    await using _reader = await Client.connect({ ...own, token });
    expect((await view(own)).containerState).toMatchObject({ state: "asleep", failures: 0 });
    expect(starts(own.workspace)).toEqual([]);
  });

  test("stops its container when containers are switched off", async () => {
    const own = await workspace("cancelled");
    await using client = await Client.connect(own);
    await client.newSession();
    const pids = starts(own.workspace);
    await own.api("/api/workspaces/cancelled", {
      method: "PUT",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({ container: null }),
    });
    await eventually(() => alive(pids).length === 0);
    expect((await view(own)).containerState).toBeNull();
  });
});

describe("a container", () => {
  test("is reported when it ends at once, and started again with pauses until it stays", async () => {
    const own = await workspace("broken");
    writeFileSync(join(directory, "broken"), "broken\n");
    const silent = await Client.connect(await workspace("silent"), { agent: "demo" });
    await using client = await Client.connect(own);
    const opening = [client, silent].map((one) => one.newSession().catch((error: RpcError) => error.message));
    expect(await Promise.all(opening)).toEqual([
      expect.stringMatching(/a container, .*the container ended with exit code 5/),
      expect.stringMatching(/a container, .*its host has not dialled in within 9000 ms/),
    ]);
    await silent.close();
    expect(alive(starts("silent")).length).toBeLessThan(2);
    // Starts are 300, 600, 1200, 2000, 2000 … ms apart, for fourteen seconds.
    expect(starts(own.workspace).length).toBeGreaterThan(1);
    expect(starts(own.workspace).length).toBeLessThan(12);
    expect((await view(own)).containerState?.failures).toBeGreaterThan(1);

    writeFileSync(join(directory, "broken"), "");
    const session = await client.newSession();
    expect((await client.prompt(session, "/echo mended")).stopReason).toBe("end_turn");
  });

  test("is reported when it cannot be started", async () => {
    const own = await workspace("unstartable");
    chmodSync(command, 0o644);
    try {
      await using client = await Client.connect(own);
      await expect(client.newSession()).rejects.toMatchObject({ message: expect.stringContaining("EACCES") });
      expect(starts(own.workspace)).toEqual([]);
    } finally {
      chmodSync(command, 0o755);
    }
    await using client = await Client.connect(own);
    const session = await client.newSession();
    expect((await client.prompt(session, "/echo hi")).stopReason).toBe("end_turn");
  });

  test("leaves the turn in doubt when it dies, and the next prompt gets another one", async () => {
    const own = await workspace("mortal");
    await using client = await Client.connect(own);
    const session = await client.newSession();
    const trace = "trace.txt";
    const turn = client
      .prompt(session, `/trace ${trace} once\n/stream 1000 100 20`)
      .catch((error: RpcError) => error);
    await client.wire.until(({ message }) => message.params?.update?.sessionUpdate === "agent_message_chunk");
    process.kill(starts(own.workspace)[0] as number, "SIGKILL");
    expect(await turn).toMatchObject({ data: { outcome: "unknown" } });
    const { stopReason, updates } = await client.prompt(session, "/echo again");
    expect(stopReason).toBe("end_turn");
    expect(textOf(updates)).toContain("again");
    expect(starts(own.workspace)).toHaveLength(2);
    const [host] = (await view(own)).hosts;
    expect(readFileSync(join(host?.root as string, trace), "utf8").trim()).toBe("once");
  });

  test("belongs to one workspace, with a token for that workspace only", async () => {
    const [one, other] = [await workspace("one"), await workspace("other")];
    for (const own of [one, other]) {
      await using client = await Client.connect(own);
      await client.newSession();
    }
    const [pid] = starts("one") as [number];
    const [otherPid] = starts("other") as [number];
    expect(alive([pid, otherPid])).toHaveLength(2);
    const [[host], [otherHost]] = [(await view(one)).hosts, (await view(other)).hosts];
    expect(host).toMatchObject({ name: "container", state: "connected" });
    expect(host?.root).not.toBe(otherHost?.root);

    const token = tokenOf(pid);
    expect(decodeJwt(token)).toMatchObject({ tenant: "local", workspaces: ["one"], scopes: ["host"] });
    expect(await upgrade("/host/control?workspace=other", token)).toBe(404);
    const { sessions } = (await (await other.api("/api/sessions")).json()) as { sessions: { id: string }[] };
    expect(sessions.length).toBeGreaterThan(0);
    const theirs = JSON.stringify(sessions).match(/[0-9a-f-]{36}/)?.[0];
    expect(await upgrade(`/host/sessions/${theirs}`, token)).toBe(404);
    expect(
      (await gateway.api("/api/sessions", { headers: { authorization: `Bearer ${token}` } })).status,
    ).toBe(403);
  });

  test("outlives the token it was started with", async () => {
    const own = await workspace("lasting");
    await using client = await Client.connect(own);
    await client.newSession();
    const [pid] = starts(own.workspace) as [number];
    // The host's first token has expired and is refused.
    await eventually(async () => (await upgrade("/host/sessions/x", tokenOf(pid))) === 401, 30_000);
    const session = await client.newSession();
    expect((await client.prompt(session, "/echo on")).stopReason).toBe("end_turn");
    expect(starts(own.workspace)).toEqual([pid]);
  });
});

test("a killed gateway finds its containers again or starts others", async () => {
  const own = await workspace("resilient");
  {
    await using client = await Client.connect(own);
    await client.newSession();
  }
  gateway.killWorkerd();
  await eventually(async () => (await gateway.api("/healthz")).status === 200);
  await using client = await Client.connect(own);
  const session = await client.newSession();
  expect((await client.prompt(session, "/echo back")).stopReason).toBe("end_turn");
});

test("[I6] a container outlives kill -9 of workerd, and so does its turn", async () => {
  const own = await workspace("steady");
  const first = await Client.connect(own);
  const session = await first.newSession();
  first.prompt(session, "/stream 400 60 10").catch(() => {});
  await first.hears(session, "000020 ");
  gateway.killWorkerd();
  await first.closed;
  const isOver = ({ kind }: { kind: string }) => kind.startsWith("turn.") && kind !== "turn.started";
  await eventually(async () => (await readLog(own, session)).some(isOver), 40_000);
  const log = await readLog(own, session);
  expect(log.filter(isOver)).toMatchObject([{ kind: "turn.completed" }]);
  expect(streamed(loggedUpdates(log))).toEqual(upTo(400));
  const [pid, ...more] = starts(own.workspace) as [number, ...number[]];
  expect(more).toEqual([]);

  // The object that took the container over notices its end.
  process.kill(pid, "SIGKILL");
  await using second = await Client.connect(own);
  await second.load(session);
  expect((await second.prompt(session, "/echo again")).stopReason).toBe("end_turn");
  expect(starts(own.workspace)).toHaveLength(2);
});

test("a gateway that ends stops its hosts", async () => {
  const own = await startGateway({ args: ["--on-demand", "--agents", "demo"] });
  {
    await using client = await Client.connect(own);
    await client.newSession();
  }
  const pids = own.processes().map(({ pid }) => pid);
  expect(own.processes().some(({ command: line }) => line.includes("host/main.ts"))).toBe(true);
  expect((await own.stop()).code).toBe(0);
  await eventually(() => alive(pids).length === 0);
  await own[Symbol.asyncDispose]();
});

/** The status that refuses a host's socket. */
function upgrade(path: string, token: string): Promise<number> {
  return new Promise((resolve, reject) => {
    const url = `${gateway.url.replace("http", "ws")}${path}`;
    const socket = new WebSocket(url, { headers: { authorization: `Bearer ${token}` } });
    socket.on("unexpected-response", (_request, response) => {
      socket.terminate();
      resolve(response.statusCode as number);
    });
    socket.on("open", () => {
      socket.terminate();
      reject(new Error("was let in"));
    });
    socket.on("error", () => {});
  });
}
