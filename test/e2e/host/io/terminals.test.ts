import { mkdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, onTestFinished, test, vi } from "vitest";
import { OutputBudget } from "../../../../src/host/io/output-budget.ts";
import { Terminals } from "../../../../src/host/io/terminals.ts";
import { Isolation } from "../../../../src/host/isolation/isolation.ts";
import { DEFAULT_LIMITS } from "../../../../src/protocol/limits.ts";
import { temporaryDirectory } from "../../../fixtures/temporary-directory.ts";
import { isAlive } from "../harness.ts";

function terminals(
  terminalMs = 60_000,
  agentTerminalBytes = 32 * 1024 * 1024,
): { terminals: Terminals; root: string } {
  const root = temporaryDirectory();
  const context = {
    root,
    timing: { killAfterMs: 300, terminalMs },
    limits: { ...DEFAULT_LIMITS, agentTerminalBytes },
    isolation: Isolation.none(root),
    outputs: new OutputBudget(256 * 1024 * 1024),
  };
  const reports = {
    hasRoom: () => true,
    output: () => {},
    ended: () => {},
    redactPart: (text: string) => text,
  };
  const terminals = new Terminals(context, { PATH: process.env.PATH ?? "" }, reports);
  onTestFinished(() => terminals.close());
  return { terminals, root };
}

/** Starts a script that writes its process id to a file and then waits. */
async function startWaiting(
  { terminals, root }: { terminals: Terminals; root: string },
  script = "",
): Promise<[{ terminalId: string }, number]> {
  const command = `${script} echo $$ > tmp; mv tmp pid; sleep 60 & wait; wait`;
  const terminal = await terminals.create({ command });
  const pid = await vi.waitFor(() => readFile(join(root, "pid"), "utf8"));
  return [terminal, Number(pid)];
}

describe("a terminal", () => {
  test("runs a command with its arguments, environment and directory", async () => {
    const { terminals: terms, root } = terminals();
    await mkdir(join(root, "sub"));
    const terminal = await terms.create({
      command: "sh",
      args: ["-c", 'echo "$GREETING from $(pwd)"; echo oops >&2; exit 3'],
      env: [{ name: "GREETING", value: "hello" }],
      cwd: "sub",
    });
    expect(await terms.waitForExit(terminal)).toEqual({ exitCode: 3, signal: null });
    const { output, ...rest } = terms.output(terminal);
    expect(output.split("\n").sort()).toEqual(["", `hello from ${root}/sub`, "oops"]);
    expect(rest).toEqual({ truncated: false, exitStatus: { exitCode: 3, signal: null } });
  });

  test("runs a whole command line", async () => {
    const { terminals: terms } = terminals();
    const terminal = await terms.create({ command: "echo one | tr o 0" });
    await terms.waitForExit(terminal);
    expect(terms.output(terminal).output).toBe("0ne\n");
  });

  test("keeps the end of a long output", async () => {
    const { terminals: terms } = terminals();
    const terminal = await terms.create({ command: "seq 1 100000", outputByteLimit: 12 });
    await terms.waitForExit(terminal);
    expect(terms.output(terminal)).toMatchObject({ output: "9999\n100000\n", truncated: true });
  });

  test("has no exit status while it runs, and keeps its output when it is killed", async () => {
    const of = terminals();
    const [terminal] = await startWaiting(of, "echo started;");
    expect(of.terminals.output(terminal)).toEqual({ output: "started\n", truncated: false });
    const exit = of.terminals.waitForExit(terminal);
    expect(of.terminals.kill(terminal)).toEqual({});
    expect(await exit).toEqual({ exitCode: null, signal: "SIGTERM" });
    expect(of.terminals.output(terminal)).toMatchObject({
      output: "started\n",
      exitStatus: { signal: "SIGTERM" },
    });
  });

  test("is killed if it ignores SIGTERM", async () => {
    const of = terminals();
    const [terminal, pid] = await startWaiting(of, "trap '' TERM;");
    of.terminals.kill(terminal);
    expect(await of.terminals.waitForExit(terminal)).toEqual({ exitCode: null, signal: "SIGKILL" });
    expect(isAlive(pid)).toBe(false);
  });

  test("is ended and forgotten when it is released", async () => {
    const of = terminals();
    const [terminal, pid] = await startWaiting(of);
    const exit = of.terminals.waitForExit(terminal);
    expect(of.terminals.release(terminal)).toEqual({});
    await exit;
    expect(isAlive(pid)).toBe(false);
    expect(() => of.terminals.output(terminal)).toThrow(
      expect.objectContaining({ code: -32002, data: terminal, message: "Unknown terminal" }),
    );
  });

  test("ends with its agent", async () => {
    const of = terminals();
    const [, pid] = await startWaiting(of);
    await of.terminals.close();
    await expect.poll(() => isAlive(pid)).toBe(false);
  });

  test("is awaited when its agent ends, if it was released and ends slowly", async () => {
    const of = terminals();
    const [terminal, pid] = await startWaiting(of, "trap '' TERM;");
    of.terminals.release(terminal);
    await of.terminals.close();
    await expect.poll(() => isAlive(pid)).toBe(false);
  });

  test("is ended with its agent even if it starts while the agent ends", async () => {
    const { terminals: terms, root } = terminals();
    const starting = terms.create({ command: "echo $$ > tmp; mv tmp pid; sleep 60 & wait" });
    await terms.close();
    const ended = await starting.then(
      () => readFile(join(root, "pid"), "utf8").then(Number, () => 0),
      () => 0,
    );
    if (ended > 0) await expect.poll(() => isAlive(ended)).toBe(false);
    await expect(terms.create({ command: "pwd" })).rejects.toMatchObject({ message: "the agent is gone" });
  });

  test("is ended after its maximum time", async () => {
    const of = terminals(1);
    const terminal = await of.terminals.create({ command: "sleep 60" });
    expect(await of.terminals.waitForExit(terminal)).toEqual({ exitCode: null, signal: "SIGTERM" });
  });

  test("does not block other terminals by writing without end, and keeps the end of its output", async () => {
    const of = terminals();
    const flood = await of.terminals.create({ command: "yes flood", outputByteLimit: 1000 });
    const other = await of.terminals.create({ command: "echo other" });
    await of.terminals.waitForExit(other);
    await vi.waitFor(() => expect(of.terminals.output(flood).truncated).toBe(true));
    expect(of.terminals.output(flood).output.length).toBeLessThanOrEqual(1000);
    of.terminals.kill(flood);
    expect(await of.terminals.waitForExit(flood)).toMatchObject({ signal: "SIGTERM" });
  });

  test.each([
    ["a command", { command: "a\0b", args: ["x"] }],
    ["an argument", { command: "echo", args: ["a\0b"] }],
    ["a variable", { command: "env", env: [{ name: "A", value: "a\0b" }] }],
    ["a directory", { command: "pwd", cwd: "a\0b" }],
  ])("cannot have a null character in %s", async (_, params) => {
    await expect(terminals().terminals.create(params)).rejects.toMatchObject({ code: expect.any(Number) });
  });

  test("is refused beyond the maximum number", async () => {
    const { terminals: terms } = terminals();
    for (let n = 0; n < 100; n++) await terms.create({ command: "true" });
    await expect(terms.create({ command: "true" })).rejects.toMatchObject({
      message: "100 terminals are open: release some of them first",
    });
  });

  test("is refused outside the workspace or without a command", async () => {
    const { terminals: terms } = terminals();
    await expect(terms.create({ command: "pwd", cwd: "/" })).rejects.toMatchObject({ code: -32602 });
    await expect(terms.create({ command: "/no/such/command" })).rejects.toMatchObject({
      code: -32603,
      message: expect.stringContaining("ENOENT"),
    });
  });
});
