import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { fileURLToPath } from "node:url";
import { describe, expect, onTestFinished, test } from "vitest";
import { temporaryDirectory } from "../../fixtures/temporary-directory.ts";
import { FakeGateway } from "./fake-gateway.ts";
import { FIXTURE, isAlive } from "./harness.ts";

const MAIN = fileURLToPath(new URL("../../../src/host/main.ts", import.meta.url));

async function startMain(
  env: NodeJS.ProcessEnv = {},
  ...more: string[]
): Promise<{ gateway: FakeGateway; main: ChildProcess }> {
  const gateway = await FakeGateway.start();
  const options = [
    "--gateway",
    gateway.url,
    "--workspace",
    "w",
    "--root",
    temporaryDirectory(),
    "--name",
    "n",
    ...more,
  ];
  const main = spawn(process.execPath, [MAIN, ...options, "--agent", `'${process.execPath}' '${FIXTURE}'`], {
    env: {
      ...process.env,
      ACP_EDGE_HOST_TOKEN: "secret",
      ACP_EDGE_HOST_STATE: temporaryDirectory(),
      ...env,
    },
    stdio: ["pipe", "inherit", "ignore"],
  });
  onTestFinished(() => {
    main.kill("SIGKILL");
    gateway.close();
  });
  return { gateway, main };
}

/** Opens a session and returns the process id of its agent. */
async function startAgent(gateway: FakeGateway): Promise<number> {
  const session = await gateway.open("s", "custom");
  await gateway.until(() => session.frames.length);
  return session.events<{ pid: number }>("started")[0]?.pid as number;
}

describe("the host process", () => {
  test("offers the custom agent and those of the catalogue", async () => {
    const { gateway } = await startMain();
    const hello = await gateway.until(() => gateway.control[0]);
    expect(hello).toMatchObject({
      agents: expect.arrayContaining([
        expect.objectContaining({ id: "custom", default: true, available: true }),
        expect.objectContaining({ id: "demo", default: false, available: true }),
        expect.objectContaining({ id: "pi-acp", default: false, available: false }),
      ]),
    });
  });

  test.each(["SIGTERM", "SIGINT"] as const)("ends its agents on %s and logs it", async (signal) => {
    const { gateway, main } = await startMain({}, "--drain", "0");
    const pid = await startAgent(gateway);
    main.kill(signal);
    expect(await once(main, "exit")).toEqual([0, null]);
    expect(isAlive(pid)).toBe(false);
    expect(gateway.session("s").exit?.error).toBe("the host was shut down");
  });

  test("ends when its parent closes its stdin", async () => {
    const { gateway, main } = await startMain({ ACP_EDGE_PARENT_PIPE: "1" });
    const pid = await startAgent(gateway);
    main.stdin?.end();
    expect(await once(main, "exit")).toEqual([0, null]);
    expect(isAlive(pid)).toBe(false);
  });

  test("announces that it drains, and ends when its sessions have released it", async () => {
    const { gateway, main } = await startMain();
    const pid = await startAgent(gateway);
    main.kill("SIGTERM");
    await gateway.until(() => gateway.said("draining").length);
    expect(isAlive(pid)).toBe(true);
    // A new socket to a session announces it too.
    const session = gateway.session("s");
    session.socket?.terminate();
    await gateway.until(() => session.hellos.at(-1)?.draining);
    session.stop();
    expect(await once(main, "exit")).toEqual([0, null]);
    expect(isAlive(pid)).toBe(false);
    expect(session.exit?.error).toBeUndefined();
  });

  test("ends when the drain time is over", async () => {
    const { gateway, main } = await startMain({}, "--drain", "1");
    const pid = await startAgent(gateway);
    main.kill("SIGTERM");
    expect(await once(main, "exit")).toEqual([0, null]);
    expect(isAlive(pid)).toBe(false);
    expect(gateway.said("draining")).toHaveLength(1);
    expect(gateway.session("s").exit?.error).toBe("the host was shut down");
  });

  test("ends on a second signal", async () => {
    const { gateway, main } = await startMain({}, "--drain", "1000");
    const pid = await startAgent(gateway);
    main.kill("SIGTERM");
    await gateway.until(() => gateway.said("draining").length);
    main.kill("SIGINT");
    expect(await once(main, "exit")).toEqual([0, null]);
    expect(isAlive(pid)).toBe(false);
  });

  test("exits with code 8 and ends its agents when another host took its name", async () => {
    const { gateway, main } = await startMain();
    const pid = await startAgent(gateway);
    gateway.controlSocket?.close(4409, "superseded");
    expect(await once(main, "exit")).toEqual([8, null]);
    expect(isAlive(pid)).toBe(false);
  });

  test("exits with code 7 when the gateway speaks another version", async () => {
    const { gateway, main } = await startMain();
    await gateway.until(() => gateway.controlSocket);
    gateway.say({ t: "refused", reason: "This gateway speaks 9", why: "version" });
    expect(await once(main, "exit")).toEqual([7, null]);
  });

  test.each([
    ["--drain", "soon"],
    ["--capacity", "0"],
  ])("refuses %s %s", async (...more) => {
    const { main } = await startMain({}, ...more);
    expect(await once(main, "exit")).toEqual([2, null]);
  });

  test("fails when the gateway refuses its token", async () => {
    const { gateway, main } = await startMain();
    gateway.refusals.set("/host/control", 401);
    expect(await once(main, "exit")).toEqual([3, null]);
  });
});
