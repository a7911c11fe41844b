/** Processes of this machine, such as agents, that talk to the ports of the gateway's own process. */
import { existsSync, readdirSync, readFileSync, readlinkSync } from "node:fs";
import { request } from "node:http";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { LocalContainers } from "../../src/cli/local/local-containers.ts";
import { LOOPBACK_SECRET } from "../../src/protocol/loopback-secret.ts";
import { temporaryDirectory } from "../fixtures/temporary-directory.ts";
import { type Gateway, startGateway } from "./gateway.ts";

const LISTENING = "0A";

/** The ports that a process listens on. */
function portsOf(pid: number): number[] {
  const sockets = readdirSync(`/proc/${pid}/fd`).flatMap((fd) => {
    try {
      return readlinkSync(`/proc/${pid}/fd/${fd}`).match(/^socket:\[(\d+)\]$/)?.[1] ?? [];
    } catch {
      return [];
    }
  });
  return readFileSync("/proc/net/tcp", "utf8")
    .split("\n")
    .slice(1)
    .map((line) => line.trim().split(/\s+/))
    .filter(([, , , state, , , , , , inode]) => state === LISTENING && sockets.includes(inode ?? ""))
    .map(([, address = ""]) => Number.parseInt(address.split(":")[1] ?? "", 16));
}

function gatewayPorts(gateway: Gateway): number[] {
  const processes = gateway.processes().filter(({ command }) => command.includes("gateway-process.ts"));
  return processes.flatMap(({ pid }) => portsOf(pid));
}

/** The status of the answer, or `closed`. */
function call(
  port: number,
  path: string,
  headers: Record<string, string>,
  body = "",
): Promise<number | string> {
  return new Promise((resolve) => {
    const sent = request({ host: "127.0.0.1", port, path, method: "POST", headers }, (response) => {
      response.resume();
      resolve(response.statusCode ?? 0);
    });
    sent.on("error", () => resolve("closed")).end(body);
  });
}

describe.each([
  ["npm start", []],
  ["npm start -- --on-demand", ["--on-demand"]],
])("the process of the gateway under %s", (_, args) => {
  test("obeys nobody but its Worker", async () => {
    const directory = temporaryDirectory();
    const file = join(directory, "written");
    await using gateway = await startGateway({ args });
    const ports = gatewayPorts(gateway);
    expect(ports.length).toBeGreaterThan(0);
    const up = "../".repeat(20);
    const service = {
      "MF-Custom-Fetch-Service": "0/#LOCAL_CONTAINERS",
      "MF-Original-URL": "http://x/start?id=x",
    };
    const order = JSON.stringify({ ACP_EDGE_WORKSPACE: "x", NODE_OPTIONS: `--require=${file}` });
    for (const port of ports) {
      const write = `/core/store-temp-file?prefix=x&extension=${encodeURIComponent(`x/${up}${file}`)}`;
      expect(await call(port, write, {}, "text")).toBe(403);
      expect(await call(port, write, { [LOOPBACK_SECRET]: "guess" }, "text")).toBe(403);
      expect(await call(port, write, { expect: "100-continue" }, "text")).toBe(403);
      expect(await call(port, "/", service, order)).toBe(403);
      expect(await call(port, "/core/public-url", {})).toBe(403);
      expect(await call(port, "/", { ...service, connection: "upgrade", upgrade: "websocket" })).toBe(
        "closed",
      );
    }
    expect(existsSync(file)).toBe(false);
    expect(existsSync(join(gateway.state, "containers", "x"))).toBe(false);
  });
});

describe("local containers", () => {
  const secret = "the-secret-of-this-start";
  const order = {
    ACP_EDGE_GATEWAY: "http://127.0.0.1:1",
    ACP_EDGE_WORKSPACE: "w",
    ACP_EDGE_NAME: "n",
    ACP_EDGE_HOST_TOKEN: "t",
    ACP_EDGE_DRAIN: "0",
  };

  function make() {
    const directory = temporaryDirectory();
    const file = join(directory, "started");
    const options = { command: ["/bin/sh", "-c", `touch '${file}'`], root: directory, directory, env: {} };
    const containers = new LocalContainers(options, secret);
    const ask = (path: string, env: object, given = secret) =>
      containers.fetch(
        new Request(`http://containers${path}?id=i`, {
          method: "POST",
          headers: { [LOOPBACK_SECRET]: given },
          body: JSON.stringify(env),
        }),
      );
    return { ask, hasStarted: () => existsSync(file) };
  }

  test("start a host as the workspace orders", async () => {
    const { ask, hasStarted } = make();
    expect(await (await ask("/start", order)).json()).toEqual({});
    expect(await (await ask("/wait", {})).json()).toEqual({ code: 0 });
    expect(hasStarted()).toBe(true);
  });

  test("refuse a caller without the secret", async () => {
    const { ask, hasStarted } = make();
    for (const given of ["", "guess", `${secret}x`])
      expect((await ask("/start", order, given)).status).toBe(403);
    expect(hasStarted()).toBe(false);
  });

  test.each([
    ["NODE_OPTIONS", { NODE_OPTIONS: "--require=/x" }],
    ["LD_PRELOAD", { LD_PRELOAD: "/x" }],
    ["PATH", { PATH: "/x" }],
    ["ACP_EDGE_AGENT_COMMAND", { ACP_EDGE_AGENT_COMMAND: "/x" }],
    ["a workspace whose name leads out", { ACP_EDGE_WORKSPACE: ".." }],
  ])("refuse an order with %s", async (_, more) => {
    const { ask, hasStarted } = make();
    expect(await (await ask("/start", { ...order, ...more })).json()).toHaveProperty("error");
    expect(await (await ask("/wait", {})).json()).toEqual({ code: 0 });
    expect(hasStarted()).toBe(false);
  });
});
