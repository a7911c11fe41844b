import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { describe, expect, onTestFinished, test, vi } from "vitest";
import { processTable } from "../../../src/cli/local/process-tree.ts";
import { findProcess, processScope } from "../../../src/host/os/linux-processes.ts";
import { ProcessGroupRecords } from "../../../src/host/os/process-group-records.ts";
import { temporaryDirectory } from "../../fixtures/temporary-directory.ts";
import { FakeGateway, type FakeSession } from "./fake-gateway.ts";
import { FIXTURE, isAlive } from "./harness.ts";

const MAIN = fileURLToPath(new URL("../../../src/host/main.ts", import.meta.url));

/** A gateway, and a host that can be started again and again under one name. */
async function hostOf(isolation: string) {
  const gateway = await FakeGateway.start();
  onTestFinished(() => gateway.close());
  const root = temporaryDirectory();
  const state = temporaryDirectory();
  const start = (): ChildProcess => {
    const options = ["--gateway", gateway.url, "--workspace", "w", "--root", root, "--name", "n"];
    const agent = `'${process.execPath}' '${FIXTURE}' ignores-sigterm`;
    const more = ["--state", state, "--drain", "0", "--agent", agent, "--isolation", isolation];
    const main = spawn(process.execPath, [MAIN, ...options, ...more], {
      env: { ...process.env, ACP_EDGE_HOST_TOKEN: "secret", ACP_EDGE_TIMING: '{"killAfterMs":300}' },
      stdio: ["ignore", "inherit", "ignore"],
    });
    onTestFinished(() => void main.kill("SIGKILL"));
    return main;
  };
  return { gateway, root, state, start };
}

/** Makes the agent run a command in a terminal. */
function createTerminal(session: FakeSession, command: string): void {
  const create = { id: 9, method: "terminal/create", params: { command } };
  session.tell("write", { chunks: [Buffer.from(`${JSON.stringify(create)}\n`).toString("base64")] });
}

describe("a host that was killed", () => {
  test("leaves processes that the next host of its name ends before it starts any", async () => {
    const { gateway, root, state, start } = await hostOf("none");
    const main = start();
    const session = await gateway.open("s", "custom");
    await gateway.until(() => session.frames.length);
    createTerminal(session, "trap '' TERM; echo $$ > tmp; mv tmp pid; while :; do sleep 1; done");
    const terminal = Number(await vi.waitFor(() => readFileSync(join(root, "pid"), "utf8")));
    const agent = session.events<{ pid: number }>("started")[0]?.pid as number;
    onTestFinished(() => {
      for (const leader of [agent, terminal]) killGroup(leader);
    });

    main.kill("SIGKILL");
    await once(main, "exit");
    await gateway.until(() => gateway.controlSocket === undefined);
    expect([agent, terminal].map(isAlive)).toEqual([true, true]);

    const next = start();
    await gateway.until(() => gateway.controlSocket);
    expect([agent, terminal].map(isAlive)).toEqual([false, false]);

    const again = await gateway.open("t", "custom");
    await gateway.until(() => again.frames.length);
    next.kill("SIGTERM");
    await once(next, "exit");
    expect(readdirSync(join(state, "hosts"))).toEqual([]);
  });

  test.each(["none", "bwrap", "unshare"])(
    "and isolated its agents by %s leaves no process that left its group to the next host",
    async (isolation) => {
      const { gateway, start } = await hostOf(isolation);
      const main = start();
      const session = await gateway.open("s", "custom");
      await gateway.until(() => session.frames.length);
      const agent = session.events<{ pid: number }>("started")[0]?.pid as number;
      const seconds = `6${String(Math.random()).slice(2, 9)}`;
      const running = () => processTable().filter(({ command }) => command === `sleep ${seconds}`);
      onTestFinished(() => {
        killGroup(agent);
        for (const { pid } of running()) process.kill(pid, "SIGKILL");
      });
      createTerminal(session, `setsid sh -c "trap '' TERM; sleep ${seconds} & sleep ${seconds}" & sleep 60`);
      await expect.poll(() => running().length).toBe(2);

      main.kill("SIGKILL");
      await once(main, "exit");
      // An agent in a namespace does not even outlive its host.
      if (isolation !== "none") await expect.poll(() => isAlive(agent)).toBe(false);
      await gateway.until(() => gateway.controlSocket === undefined);
      const next = start();
      await gateway.until(() => gateway.controlSocket);
      expect(running()).toEqual([]);
      // A killed host would leave its warm process behind.
      next.kill("SIGTERM");
      await once(next, "exit");
    },
  );
});

describe.each(["bwrap", "unshare"])("a host that was killed and isolated by %s", (isolation) => {
  test("takes along what its terminals started, even without environment and group", async () => {
    const { gateway, start } = await hostOf(isolation);
    const main = start();
    const session = await gateway.open("s", "custom");
    await gateway.until(() => session.frames.length);
    const seconds = `7${String(Math.random()).slice(2, 9)}`;
    const running = () => processTable().filter(({ command }) => command === `sleep ${seconds}`);
    onTestFinished(() => {
      for (const { pid } of running()) process.kill(pid, "SIGKILL");
    });
    createTerminal(session, `(env -i PATH=$PATH setsid sleep ${seconds} &); sleep 60`);
    await expect.poll(() => running().length).toBe(1);
    main.kill("SIGKILL");
    await once(main, "exit");
    await expect.poll(() => running()).toEqual([]);
  });
});

describe("a record of process groups", () => {
  const identity = { workspace: "w", name: "n", root: "/" };
  const dead = { pid: 2 ** 22 + 1, startedAt: "1" };

  /** Lets a host find the record of an earlier host, and returns its log. */
  async function find(record: object, leader: number): Promise<string[]> {
    const state = temporaryDirectory();
    const log: string[] = [];
    const open = () => ProcessGroupRecords.open(state, identity, 300, (event) => log.push(event));
    await open();
    const [directory] = readdirSync(join(state, "hosts"));
    const startedAt = findProcess(leader)?.startedAt ?? "1";
    const file = join(state, "hosts", directory as string, "earlier.json");
    const whole = { ...processScope(), mark: "m", host: dead, groups: [{ leader, startedAt }], ...record };
    writeFileSync(file, JSON.stringify(whole));
    (await open())?.close();
    return log;
  }

  /** A new process group whose leader may exit immediately. */
  async function group(mark: string, leaves = false): Promise<{ leader: number; member: number }> {
    const script = `
      const { spawn } = require("node:child_process");
      const child = spawn("sleep", ["60"], { stdio: "ignore" });
      child.on("spawn", () => { console.log(child.pid); ${leaves ? "process.exit()" : ""} });`;
    const leader = spawn(process.execPath, ["-e", script], {
      detached: true,
      stdio: ["ignore", "pipe", "inherit"],
      env: { ...process.env, ACP_EDGE_HOST_MARK: mark },
    });
    const exited = once(leader, "exit");
    const [line] = await once(leader.stdout, "data");
    if (leaves) await exited;
    onTestFinished(() => killGroup(leader.pid as number));
    return { leader: leader.pid as number, member: Number(String(line)) };
  }

  test("has the mark before any group starts, so the first process of a host that is killed is ended", async () => {
    const state = temporaryDirectory();
    const script = `
      import { spawn } from "node:child_process";
      import { ProcessGroupRecords } from "${new URL("../../../src/host/os/process-group-records.ts", import.meta.url)}";
      const records = await ProcessGroupRecords.open("${state}", ${JSON.stringify(identity)}, 300, () => {});
      const env = { ...process.env, ...records.variables };
      const agent = spawn("sleep", ["60"], { detached: true, stdio: "ignore", env });
      process.stdout.write(String(agent.pid), () => process.kill(process.pid, "SIGKILL"));`;
    const host = spawn(process.execPath, ["--input-type=module", "-e", script], {
      stdio: ["ignore", "pipe", "inherit"],
    });
    const exited = once(host, "exit");
    const agent = Number(String((await once(host.stdout, "data"))[0]));
    onTestFinished(() => killGroup(agent));
    await exited;
    expect(isAlive(agent)).toBe(true);
    (await ProcessGroupRecords.open(state, identity, 300, () => {}))?.close();
    expect(isAlive(agent)).toBe(false);
  });

  test("ends a group that still exists", async () => {
    const { leader, member } = await group("");
    expect(await find({}, leader)).toHaveLength(1);
    expect([leader, member].map(isAlive)).toEqual([false, false]);
  });

  test("ends the marked rest of a group whose leader has exited", async () => {
    const { leader, member } = await group("m", true);
    expect(await find({}, leader)).toHaveLength(1);
    await expect.poll(() => isAlive(member)).toBe(false);
  });

  test("never ends a process that reuses a number", async () => {
    const { leader, member } = await group("another");
    expect(await find({ groups: [{ leader, startedAt: "1" }] }, leader)).toEqual([]);
    expect([leader, member].map(isAlive)).toEqual([true, true]);
  });

  test("never ends an unmarked group whose leader has exited", async () => {
    const { leader, member } = await group("another", true);
    expect(await find({}, leader)).toEqual([]);
    expect(isAlive(member)).toBe(true);
  });

  test.each([
    ["from before the last boot", { boot: "another" }],
    ["of another container", { namespace: "pid:[1]" }],
    ["of a host that is alive", { host: findProcess(process.pid) }],
    ["that names process 1", { groups: [{ leader: 1, startedAt: "1" }] }],
    ["that names every process", { groups: [{ leader: -1, startedAt: "1" }] }],
  ])("%s ends nothing", async (_, record) => {
    const { leader } = await group("m");
    expect(await find(record, leader)).toEqual([]);
    expect(isAlive(leader)).toBe(true);
  });

  test("does not keep the host from starting if it cannot be written", async () => {
    const state = join(temporaryDirectory(), "file");
    mkdirSync(state);
    writeFileSync(join(state, "hosts"), "");
    const log: string[] = [];
    expect(await ProcessGroupRecords.open(state, identity, 300, (event) => log.push(event))).toBeUndefined();
    expect(log).toHaveLength(1);
  });
});

function killGroup(leader: number): void {
  try {
    process.kill(-leader, "SIGKILL");
  } catch {
    // The process has ended, as expected.
  }
}
