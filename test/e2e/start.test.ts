import { on, once } from "node:events";
import { mkdtempSync, rmSync, statSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import WebSocket from "ws";
import { keyPath } from "../../src/cli/token-signer.ts";
import { alive, eventually, type Gateway, runStart, startGateway } from "./gateway.ts";

const TIMEOUT = 60_000;

test("a gateway that lets nobody in is not ready", { timeout: TIMEOUT }, async () => {
  const state = mkdtempSync(join(tmpdir(), "acp-edge-state-"));
  const args = ["--json", "--port", "0", "--state", state];
  const { code, stdout, stderr } = await runStart(args, { ACP_EDGE_AUTH_ISSUERS: "not json" });
  rmSync(state, { recursive: true, force: true });
  expect({ code, stdout }).toEqual({ code: 1, stdout: "" });
  expect(stderr).toContain("AUTH_ISSUERS is not JSON");
  expect(stderr).toContain("lets nobody in");
});

describe("a running gateway", { timeout: TIMEOUT }, () => {
  let gateway: Gateway;
  beforeAll(async () => {
    gateway = await startGateway();
  }, TIMEOUT);
  afterAll(() => gateway?.[Symbol.asyncDispose]());

  const healthy = async () => (await fetch(`${gateway.url}/healthz`)).status === 200;

  test("prints all a client needs in one line of JSON", () => {
    const port = new URL(gateway.url).port;
    expect(gateway).toMatchObject({
      ready: true,
      url: `http://127.0.0.1:${port}`,
      wsUrl: `ws://127.0.0.1:${port}/acp`,
      token: expect.stringMatching(/^[\w-]+\.[\w-]+\.[\w-]+$/),
      hostToken: expect.stringMatching(/^[\w-]+\.[\w-]+\.[\w-]+$/),
      workspace: "local",
      pid: expect.any(Number),
    });
  });

  test("has a host with a ready agent", async () => {
    const workspace = await (await gateway.api("/api/workspaces/local")).json();
    expect(workspace).toMatchObject({ hosts: [expect.anything()] });
    expect(gateway.log()).not.toContain("has not reported ready");
  });

  test("keeps its signing key to its owner", () => {
    expect(statSync(keyPath(gateway.state)).mode & 0o777).toBe(0o600);
  });

  test("refuses a second runner on the same state", async () => {
    const second = await runStart(["--json", "--port", "0", "--state", gateway.state]);
    expect(second.code).toBe(1);
    expect(second.stdout).toBe("");
    expect(second.stderr).toContain(`in use by another acp-edge (pid ${gateway.pid})`);
    expect(await healthy()).toBe(true);
  });

  test("is back at the same address after kill -9 of workerd", async () => {
    const killed = gateway.killWorkerd();
    await eventually(healthy);
    expect(alive([killed])).toEqual([]);
    await eventually(async () => {
      const response = await gateway.api("/api/workspaces/local");
      const { hosts } = (await response.json()) as { hosts: { state: string }[] };
      return hosts.some(({ state }) => state === "connected");
    });
  });

  test("is back at the same address although workerd dies again and again", async () => {
    for (let death = 0; death < 5; death++) {
      gateway.killWorkerd();
      await eventually(healthy);
    }
  });

  test("is back at the same address after kill -9 of the process that holds workerd", async () => {
    const isHolder = ({ command }: { command: string }) => command.includes("gateway-process.ts");
    const holder = gateway.processes().find(isHolder);
    const group = gateway
      .processes()
      .filter(({ pid, parent }) => pid === holder?.pid || parent === holder?.pid);
    expect(group.length).toBeGreaterThan(1);
    process.kill(holder?.pid as number, "SIGKILL");
    await eventually(() => alive(group.map(({ pid }) => pid)).length === 0);
    await eventually(healthy);
  });

  test("starts its host again after kill -9", async () => {
    const killed = gateway.killHost();
    await eventually(() =>
      gateway.processes().some(({ pid, command }) => pid !== killed && command.includes("src/host/main.ts")),
    );
  });
});

describe("the end of a run", { timeout: TIMEOUT }, () => {
  test.each(["SIGTERM", "SIGINT"] as const)("%s leaves no process and exits with 0", async (signal) => {
    await using gateway = await startGateway();
    await newSession(gateway);
    const processes = gateway.processes();
    const pids = processes.map(({ pid }) => pid);
    for (const part of ["workerd serve", "src/host/main.ts", "src/demo-agent/main.ts"]) {
      expect(processes).toContainEqual(expect.objectContaining({ command: expect.stringContaining(part) }));
    }
    expect(await gateway.stop(signal)).toEqual({ code: 0, signal: null });
    expect(alive(pids)).toEqual([]);
  });

  test("SIGTERM for npm ends what npm has started", async () => {
    await using gateway = await startGateway({ npm: true });
    const pids = gateway.processes().map(({ pid }) => pid);
    expect(pids).toContain(gateway.pid);
    await gateway.stop();
    await eventually(() => alive(pids).length === 0);
  });

  test("kill -9 of the runner leaves no process", async () => {
    await using gateway = await startGateway();
    await newSession(gateway);
    const pids = gateway.processes().map(({ pid }) => pid);
    await gateway.stop("SIGKILL");
    await eventually(() => alive(pids).length === 0);
  });

  test("kill -9 of the runner and of the process that holds workerd leaves no process", async () => {
    await using gateway = await startGateway();
    const processes = gateway.processes();
    const holder = processes.find(({ command }) => command.includes("gateway-process.ts"));
    process.kill(gateway.pid, "SIGKILL");
    process.kill(holder?.pid as number, "SIGKILL");
    await eventually(() => alive(processes.map(({ pid }) => pid)).length === 0);
  });
});

describe("the next run on the same state", { timeout: TIMEOUT }, () => {
  let state: string;
  beforeAll(() => {
    state = mkdtempSync(join(tmpdir(), "acp-edge-state-"));
  });
  afterAll(() => rmSync(state, { recursive: true, force: true }));

  test.each(["SIGTERM", "SIGKILL"] as const)("finds its sessions again after %s", async (signal) => {
    await using first = await startGateway({ state });
    const sessionId = await newSession(first);
    await first.stop(signal);

    await using second = await startGateway({ state });
    expect((await second.api(`/api/sessions/${sessionId}`)).status).toBe(200);
    await eventually(async () => (await (await second.api("/api/sessions")).text()).includes(sessionId));
  });

  test("accepts the tokens of the run before", async () => {
    await using first = await startGateway({ state });
    const { token } = first;
    await first.stop();
    await using second = await startGateway({ state });
    const headers = { authorization: `Bearer ${token}` };
    expect((await fetch(`${second.url}/api/workspaces/local`, { headers })).status).toBe(200);
  });
});

describe("an option of npm start", { timeout: TIMEOUT }, () => {
  test.each([
    [["--prot", "1"], "--prot"],
    [["--port", "high"], "--port: high is not a port number"],
    [["--port", "65536"], "--port: 65536 is not a port number"],
    [["--agent", " "], "--agent: the command is empty"],
    [["--root", "/no/such/directory"], "--root: /no/such/directory is not a directory"],
    [["extra"], "extra"],
  ])("%j is refused with exit code 2", async (args, message) => {
    const { code, stdout, stderr } = await runStart(args);
    expect({ code, stdout }).toEqual({ code: 2, stdout: "" });
    expect(stderr).toContain(message);
    expect(stderr).toContain("Usage:");
  });

  test.each([
    ['{"nope":1}', "ACP_EDGE_LIMITS: There is no limit called nope"],
    ["nope", "ACP_EDGE_LIMITS: The limits must be a JSON object"],
  ])("does not mend the limits %s, which are refused with exit code 2", async (limits, message) => {
    const { code, stdout, stderr } = await runStart([], { ACP_EDGE_LIMITS: limits });
    expect({ code, stdout }).toEqual({ code: 2, stdout: "" });
    expect(stderr).toContain(message);
  });

  test("is explained by --help", async () => {
    const { code, stdout } = await runStart(["--help"]);
    expect(code).toBe(0);
    expect(stdout).toContain("--agent");
  });

  test("--agent makes its command the default agent", async () => {
    const demo = fileURLToPath(new URL("../../src/demo-agent/main.ts", import.meta.url));
    await using gateway = await startGateway({ agent: `"${process.execPath}" "${demo}"` });
    const { agents } = (await (await gateway.api("/api/workspaces/local")).json()) as { agents: unknown[] };
    expect(agents).toContainEqual(expect.objectContaining({ id: "custom", default: true, ready: true }));
  });

  test("a port in use is refused with exit code 1", async () => {
    const state = mkdtempSync(join(tmpdir(), "acp-edge-state-"));
    const server = createServer().listen(0, "127.0.0.1");
    await once(server, "listening");
    const { port } = server.address() as { port: number };
    const { code, stdout, stderr } = await runStart(["--port", String(port), "--state", state]);
    expect({ code, stdout }).toEqual({ code: 1, stdout: "" });
    expect(stderr).toContain(`Port ${port} is in use`);
    server.close();
    rmSync(state, { recursive: true });
  });
});

/** Opens a session as an editor does. */
async function newSession(gateway: Gateway): Promise<string> {
  const socket = new WebSocket(`${gateway.wsUrl}?token=${gateway.token}`);
  await once(socket, "open");
  const request = async (id: number, method: string, params: object) => {
    socket.send(JSON.stringify({ jsonrpc: "2.0", id, method, params }));
    for await (const [data] of on(socket, "message")) {
      const message = JSON.parse(String(data)) as { id?: number; result?: { sessionId: string } };
      if (message.id === id) return message.result;
    }
  };
  await request(1, "initialize", { protocolVersion: 1, clientCapabilities: {} });
  const session = await request(2, "session/new", { cwd: gateway.root, mcpServers: [] });
  socket.close();
  return session?.sessionId as string;
}
