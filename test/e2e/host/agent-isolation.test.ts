/** Agents that try to read what belongs to the host and to each other, in every isolation of this machine. */
import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import {
  chmodSync,
  closeSync,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { describe, expect, onTestFinished, test } from "vitest";
import { descendants, processTable } from "../../../src/cli/local/process-tree.ts";
import { keyPath } from "../../../src/cli/token-signer.ts";
import { rememberLocalState } from "../../../src/node/local-states.ts";
import { temporaryDirectory } from "../../fixtures/temporary-directory.ts";
import { startGateway } from "../gateway.ts";
import { FakeGateway, type FakeSession } from "./fake-gateway.ts";
import { FIXTURE, fixture, startHost } from "./harness.ts";
import { isolate, KINDS, processesWith } from "./isolations.ts";

const MAIN = fileURLToPath(new URL("../../../src/host/main.ts", import.meta.url));

/** Everything that a process can find about others and about the host. */
const LOOK = `for f in /proc/[0-9]*/environ /proc/[0-9]*/cmdline; do tr '\\0' '\\n' < "$f"; done 2>/dev/null
base64 -w0 /proc/$PPID/environ 2>/dev/null | base64 -d 2>/dev/null
find "$1" -type f -exec cat {} + 2>/dev/null
cat "$2" 2>/dev/null
echo looked`;

/** Makes an agent run a command in a terminal, and returns the output. */
async function inTerminal(gateway: FakeGateway, session: FakeSession, args: string[]): Promise<string> {
  const ask = async (method: string, params: object) => {
    const count = session.events("answer").length;
    const id = `t${count}`;
    const frame = { jsonrpc: "2.0", id, method, params: { sessionId: "s", ...params } };
    session.tell("write", { chunks: [Buffer.from(`${JSON.stringify(frame)}\n`).toString("base64")] });
    const answer = await gateway.until(() => session.events<string>("answer")[count]);
    return JSON.parse(answer) as { result: { terminalId: string; output: string }; error?: unknown };
  };
  const { result } = await ask("terminal/create", { command: "sh", args });
  await ask("terminal/wait_for_exit", result);
  return (await ask("terminal/output", result)).result.output;
}

/** Makes an agent run a command itself, and returns the output. */
async function inAgent(gateway: FakeGateway, session: FakeSession, args: string[]): Promise<string> {
  session.tell("run", { command: "sh", args });
  const { ran } = await gateway.until(() => session.frames.find((frame) => frame.ran !== undefined));
  return String(ran);
}

async function ready(gateway: FakeGateway, id: string, agent = "fixture"): Promise<FakeSession> {
  const session = await gateway.open(id, agent);
  await gateway.until(() => session.frames.length);
  return session;
}

describe.each(KINDS.filter(({ user }) => user === undefined))("a process that starts in $name", (kind) => {
  const prepared = () => {
    const top = temporaryDirectory();
    for (const path of ["root", "states/hidden"]) mkdirSync(join(top, path), { recursive: true });
    const hidden = join(top, "states/hidden");
    writeFileSync(join(hidden, "key"), "STATE-SECRET");
    const isolation = isolate(kind, join(top, "root"), [hidden]);
    const [file, ...args] = isolation.command(["/bin/sh", "-c", "echo started"]);
    return { top, hidden, start: () => spawnSync(file, args, { encoding: "utf8" }) };
  };

  test("starts although a hidden directory was deleted meanwhile", () => {
    const { hidden, start } = prepared();
    rmSync(hidden, { recursive: true });
    expect(start()).toMatchObject({ status: 0, stdout: "started\n" });
  });

  test("does not start if a directory above a hidden one was moved meanwhile", () => {
    const { top, start } = prepared();
    renameSync(join(top, "states"), join(top, "elsewhere"));
    expect(start()).toMatchObject({ status: 126, stdout: "" });
  });
});

describe.each(KINDS)("an agent isolated by $name", (kind) => {
  test("finds neither the host's environment, state and token, nor another agent's key", async () => {
    const state = temporaryDirectory();
    writeFileSync(join(state, "key"), "STATE-SECRET", { mode: 0o600 });
    const token = join(temporaryDirectory(), "token");
    writeFileSync(token, "TOKEN-SECRET", { mode: 0o600 });
    process.env.ISOLATION_TEST = "HOST-SECRET";
    onTestFinished(() => void delete process.env.ISOLATION_TEST);
    const keyed = { ...fixture("keyed"), env: { KEY: "OTHER-SECRET" } };
    const { gateway } = await startHost({
      agents: [fixture("fixture"), keyed],
      isolation: (root) => isolate(kind, root, [state, token]),
    });
    await ready(gateway, "other", "keyed");
    const session = await ready(gateway, "s");
    const args = ["-c", LOOK, "sh", state, token];
    const outputs = [await inAgent(gateway, session, args), await inTerminal(gateway, session, args)];
    for (const output of outputs) {
      expect(output).toContain("looked");
      expect(output).not.toMatch(/STATE-SECRET|TOKEN-SECRET|HOST-SECRET/);
      // Agents that share a user and the list of processes can read each other's environment.
      if (kind.name !== "user") expect(output).not.toContain("OTHER-SECRET");
    }
  });

  test("cannot undo it", async () => {
    const state = temporaryDirectory();
    writeFileSync(join(state, "key"), "STATE-SECRET", { mode: 0o600 });
    const { gateway } = await startHost({ isolation: (root) => isolate(kind, root, [state]) });
    const session = await ready(gateway, "s");
    const undo = `umount "$1" 2>&1; umount /proc 2>&1; unshare -Urm sh -c 'umount "$1"; cat "$1"/key' sh "$1" 2>&1
      nsenter -t 1 -m cat "$1"/key 2>&1; cat /proc/1/root"$1"/key 2>&1; echo tried`;
    const output = await inAgent(gateway, session, ["-c", undo, "sh", state]);
    expect(output).toContain("tried");
    expect(output).not.toContain("STATE-SECRET");
  });

  test("chooses no variable for a program that runs outside", async () => {
    const { gateway, root } = await startHost({ isolation: (root) => isolate(kind, root) });
    const session = await ready(gateway, "s");
    const params = {
      sessionId: "s",
      command: "sleep",
      args: ["60"],
      env: [{ name: "LD_PRELOAD", value: join(root, "own.so") }],
    };
    const frame = { jsonrpc: "2.0", id: "t", method: "terminal/create", params };
    session.tell("write", { chunks: [Buffer.from(`${JSON.stringify(frame)}\n`).toString("base64")] });
    await gateway.until(() => session.events("answer").length);
    const below = () => descendants(process.pid);
    await expect.poll(() => below().some(({ command }) => command === "sleep 60")).toBe(true);
    const preloaded = processesWith(
      below().map(({ pid }) => pid),
      "own.so",
    );
    const commands = below().filter(({ pid }) => preloaded.includes(pid));
    expect(commands.map(({ command }) => command)).toEqual(["sleep 60"]);
  });

  test("works in its directory, with its home, and ends with its exit code or signal", async () => {
    const { gateway, root } = await startHost({ isolation: (root) => isolate(kind, root) });
    const session = await ready(gateway, "s");
    const script = "pwd; echo text > file; cat file; git init -q . && git status --short; exit 3";
    expect(await inTerminal(gateway, session, ["-c", script])).toBe(`${root}\ntext\n?? file\n`);
    session.tell("exit", { code: 7 });
    await gateway.until(() => session.exit);
    expect(session.exit).toMatchObject({ code: 7, signal: null });
  });

  test("is reported as missing if its program is", async () => {
    const agents = [{ ...fixture("fixture"), command: ["no-such-program", "--acp"] }];
    const { gateway } = await startHost({ agents, isolation: (root) => isolate(kind, root) });
    const session = await gateway.open("s");
    await gateway.until(() => session.exit);
    expect(session.exit?.error).toBe("the agent could not be started: no-such-program is not installed");
  });

  test("is ended together with processes that left its group, when its session or its host ends", async () => {
    const { gateway, host } = await startHost({ isolation: (root) => isolate(kind, root) });
    const running = (seconds: string) =>
      processTable().filter(({ command }) => command === `sleep ${seconds}`).length;
    const leave = (seconds: string) => `setsid sh -c 'sleep ${seconds} & sleep ${seconds}' >/dev/null 2>&1 &`;
    const first = await ready(gateway, "a");
    const second = await ready(gateway, "b");
    const [one, two, three] = [1, 2, 3].map((n) => `${n}${String(Math.random()).slice(2, 9)}`) as [
      string,
      string,
      string,
    ];
    await inAgent(gateway, first, ["-c", leave(one)]);
    await inAgent(gateway, second, ["-c", leave(two)]);
    await inTerminal(gateway, second, ["-c", `${leave(three)} exit 0`]);
    await expect.poll(() => running(one)).toBe(2);
    first.stop();
    await gateway.until(() => first.exit);
    await expect.poll(() => running(one), { timeout: 5000 }).toBe(0);
    expect(running(two)).toBe(2);
    await host.close();
    await expect.poll(() => running(two) + running(three), { timeout: 5000 }).toBe(0);
  });

  test("is ended over its process limit by processes that left its group", async () => {
    const { gateway } = await startHost({
      agentLimits: { processes: 15 },
      timing: { usageEveryMs: 50 },
      isolation: (root) => isolate(kind, root),
    });
    const session = await ready(gateway, "s");
    session.tell("run", {
      command: "sh",
      args: ["-c", "for n in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15; do setsid sleep 60 & done; wait"],
    });
    await gateway.until(() => session.exit);
    expect(session.exit?.error).toMatch(/exceeded its process limit/);
  });
});

describe("a host", () => {
  async function startMain(
    args: string[],
    env: NodeJS.ProcessEnv = {},
    { uid, leaked = {} }: { uid?: number; leaked?: Record<number, number> } = {},
  ) {
    const gateway = await FakeGateway.start();
    onTestFinished(() => gateway.close());
    const [root, state] = [temporaryDirectory(), temporaryDirectory()];
    for (const directory of [root, state]) chmodSync(directory, 0o777);
    const options = ["--gateway", gateway.url, "--workspace", "w", "--root", root, "--name", "n"];
    const agent = ["--agent", `'${process.execPath}' '${FIXTURE}'`];
    const main = spawn(process.execPath, [MAIN, ...options, ...agent, "--drain", "0", ...args], {
      // Another user has directories of its own.
      env: {
        ...process.env,
        ...{ HOME: root, XDG_STATE_HOME: "", XDG_CONFIG_HOME: "", ACP_EDGE_HOST_STATE: join(state, "own") },
        ...env,
      },
      // Gaps stay closed.
      stdio: Array.from({ length: 300 }, (_, fd) => (fd === 2 ? "pipe" : (leaked[fd] ?? "ignore"))),
      ...(uid !== undefined && { uid, gid: uid }),
    });
    onTestFinished(() => void main.kill("SIGKILL"));
    let log = "";
    main.stderr?.setEncoding("utf8").on("data", (text: string) => {
      log += text;
    });
    return { gateway, main, root, state, log: () => log };
  }

  test.each([
    ["in its environment", [], { ACP_EDGE_HOST_TOKEN: "TOKEN-SECRET" }],
    ["on its command line", ["--token", "TOKEN-SECRET"], {}],
  ])("that was given its token %s has it nowhere when agents run", async (_, args, env) => {
    const { gateway, main } = await startMain([...args, "--isolation", "none"], env);
    const session = await ready(gateway, "s", "custom");
    const pids = [main.pid as number, ...descendants(main.pid as number).map(({ pid }) => pid)];
    expect(pids.length).toBeGreaterThan(1);
    expect(processesWith(pids, "TOKEN-SECRET")).toEqual([]);
    const output = await inAgent(gateway, session, ["-c", LOOK, "sh", "/nonexistent", "/nonexistent"]);
    expect(output).toContain("looked");
    expect(output).not.toContain("TOKEN-SECRET");
  });

  test.each(["none", ...KINDS.map(({ name }) => name)])(
    "passes none of its descriptors on, to agents isolated by %s",
    async (name) => {
      const { choice, user } = KINDS.find((kind) => kind.name === name) ?? { choice: "none" };
      const file = join(temporaryDirectory(), "file");
      writeFileSync(file, "LEAKED-SECRET");
      const leak = openSync(file, "r");
      onTestFinished(() => closeSync(leak));
      // A shell gives its own files numbers like these.
      const leaked = { 5: leak, 63: leak, 251: leak };
      const isolation = ["--isolation", choice, ...(user === undefined ? [] : ["--agent-user", user])];
      // Certificates that Node reads at start may still be open.
      const env = { ACP_EDGE_HOST_TOKEN: "t", NODE_EXTRA_CA_CERTS: "" };
      const { gateway, main } = await startMain(isolation, env, { leaked });
      const session = await ready(gateway, "s", "custom");
      // The list is read through the next free number.
      const args = ["-c", "ls /proc/self/fd; echo end; cat <&63; cat <&251; cat /proc/$PPID/fd/[3-9]*"];
      for (const output of [
        await inAgent(gateway, session, args),
        await inTerminal(gateway, session, args),
      ]) {
        expect(output).toMatch(/^0\n1\n2\n3\nend\n/);
        expect(output).not.toContain("LEAKED-SECRET");
      }
      expect(readdirSync(`/proc/${main.pid}/fd`)).not.toContain("251");
    },
  );

  test("reads its token from a descriptor of any number", async () => {
    const file = join(temporaryDirectory(), "token");
    writeFileSync(file, "t");
    const leak = openSync(file, "r");
    onTestFinished(() => closeSync(leak));
    const { gateway } = await startMain(["--token-fd", "63"], {}, { leaked: { 63: leak } });
    await gateway.until(() => gateway.said("hello")[0]);
  });

  test("keeps the keys of a gateway that starts later from its agents, and its state from the next", async () => {
    const XDG_STATE_HOME = process.env.XDG_STATE_HOME as string;
    const { gateway } = await startMain([], { ACP_EDGE_HOST_TOKEN: "t", XDG_STATE_HOME });
    const session = await ready(gateway, "s", "custom");
    await using younger = await startGateway();
    const keys = dirname(keyPath(younger.state));
    const { d } = JSON.parse(readFileSync(join(keys, "signing-key.json"), "utf8")) as { d: string };
    const secretsKey = readFileSync(join(keys, "secrets-key"), "utf8");
    const look = `grep -rl -e '${d}' -e '${secretsKey}' "$@" 2>/dev/null; ls "$1"; echo looked`;
    const args = ["-c", look, "sh", younger.state, XDG_STATE_HOME];
    const running = await inAgent(gateway, session, args);
    expect(running).toMatch(/^workerd$/m);
    expect(running).not.toContain("/");
    expect(await inTerminal(gateway, session, args)).toBe("looked\n");
    const next = await ready(gateway, "t", "custom");
    expect(await inAgent(gateway, next, args)).toBe("looked\n");
  });

  test("names the states of local gateways that are not where they were", async () => {
    const env = { XDG_STATE_HOME: temporaryDirectory() };
    const state = join(temporaryDirectory(), "state");
    mkdirSync(state);
    rememberLocalState(state, env);
    renameSync(state, `${state}-moved`);
    const { gateway, log } = await startMain([], { ACP_EDGE_HOST_TOKEN: "t", ...env });
    await gateway.until(() => gateway.said("hello")[0]);
    expect(log()).toMatch(/WARNING: not where a local gateway left its state: .*state;/);
    // The directory is hidden as soon as it is back.
    const session = await ready(gateway, "s", "custom");
    renameSync(`${state}-moved`, state);
    writeFileSync(join(state, "key"), "STATE-SECRET");
    expect(await inTerminal(gateway, session, ["-c", `ls '${state}'; echo looked`])).toBe("looked\n");
  });

  test("says how agents are isolated, at start and to the gateway", async () => {
    const { gateway, log } = await startMain([], { ACP_EDGE_HOST_TOKEN: "t" });
    const hello = await gateway.until(() => gateway.said("hello")[0]);
    expect(hello.isolation).toMatch(/^(bwrap|unshare)$/);
    expect(log()).toContain(`agents are isolated by ${hello.isolation}`);
  });

  test("warns loudly if agents are not isolated", async () => {
    const { gateway, log } = await startMain([], { ACP_EDGE_HOST_TOKEN: "t", PATH: "/nonexistent" });
    const hello = await gateway.until(() => gateway.said("hello")[0]);
    expect(hello.isolation).toBe("none");
    expect(log()).toContain("WARNING: agents are NOT isolated");
  });

  test.each([
    ["nothing that it requires works", ["--isolation", "require"], /bubblewrap is not installed.*util-linux/],
    ["the demanded kind does not work", ["--isolation", "bwrap"], /bubblewrap is not installed/],
    ["there is no such user", ["--agent-user", "no-such-user"], /there is no user no-such-user/],
    ["no user is named", ["--isolation", "user"], /needs --agent-user/],
    ["it may not change its user", ["--agent-user", "nobody"], /setpriv is not installed/],
  ])("refuses to start with exit code 9 if %s", async (_, args, reason) => {
    const env = { ACP_EDGE_HOST_TOKEN: "t", PATH: "/nonexistent" };
    const { main, gateway, log } = await startMain(args, env);
    expect(await once(main, "exit")).toEqual([9, null]);
    expect(log()).toMatch(reason);
    expect(gateway.control).toEqual([]);
  });

  test.runIf(process.getuid?.() === 0)("refuses to start if its user may not change to another", async () => {
    const env = { ACP_EDGE_HOST_TOKEN: "t" };
    const { main, log } = await startMain(["--agent-user", "nobody"], env, { uid: 1 });
    expect(await once(main, "exit")).toEqual([9, null]);
    expect(log()).toMatch(/agents cannot be isolated.*user: setpriv: .*not permitted/);
  });

  test("shows its agents none of its state, even below a directory around the workspace", async () => {
    const directory = temporaryDirectory();
    const root = join(directory, "containers", "w");
    mkdirSync(root, { recursive: true });
    writeFileSync(join(directory, "key"), "STATE-SECRET");
    for (const kind of KINDS.filter(({ user }) => user === undefined)) {
      const isolation = isolate(kind, root, [directory]);
      const child = isolation.spawn(
        ["sh", "-c", 'echo "$HOME" > file; cat file; ls -R "$1"', "sh", directory],
        {
          cwd: root,
          env: { HOME: "/home/x", PATH: process.env.PATH ?? "" },
          hasInput: false,
        },
      );
      let output = "";
      child.stdout?.setEncoding("utf8").on("data", (text: string) => {
        output += text;
      });
      await once(child, "close");
      expect(output).toContain("/home/x");
      expect(output).not.toContain("key");
    }
  });
});
