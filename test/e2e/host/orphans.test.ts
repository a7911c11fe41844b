import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { describe, expect, onTestFinished, test, vi } from "vitest";
import { findProcess, processScope } from "../../../src/host/os/linux-processes.ts";
import { ProcessGroupRecords } from "../../../src/host/os/process-group-records.ts";
import { temporaryDirectory } from "../../fixtures/temporary-directory.ts";
import { FakeGateway } from "./fake-gateway.ts";
import { FIXTURE, isAlive } from "./harness.ts";

const MAIN = fileURLToPath(new URL("../../../src/host/main.ts", import.meta.url));

describe("a host that was killed", () => {
  test("leaves processes that the next host of its name ends before it starts any", async () => {
    const gateway = await FakeGateway.start();
    onTestFinished(() => gateway.close());
    const root = temporaryDirectory();
    const state = temporaryDirectory();
    const start = (): ChildProcess => {
      const options = ["--gateway", gateway.url, "--workspace", "w", "--root", root, "--name", "n"];
      const agent = `'${process.execPath}' '${FIXTURE}' ignores-sigterm`;
      const main = spawn(
        process.execPath,
        [MAIN, ...options, "--state", state, "--drain", "0", "--agent", agent],
        {
          env: { ...process.env, ACP_EDGE_HOST_TOKEN: "secret", ACP_EDGE_TIMING: '{"killAfterMs":300}' },
          stdio: ["ignore", "inherit", "ignore"],
        },
      );
      onTestFinished(() => void main.kill("SIGKILL"));
      return main;
    };
    const main = start();
    const session = await gateway.open("s", "custom");
    await gateway.until(() => session.frames.length);
    const command = "trap '' TERM; echo $$ > tmp; mv tmp pid; while :; do sleep 1; done";
    const create = { id: 9, method: "terminal/create", params: { command } };
    session.tell("write", { chunks: [Buffer.from(`${JSON.stringify(create)}\n`).toString("base64")] });
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
    const { leader, member } = await group("m");
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
