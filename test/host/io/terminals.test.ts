import { mkdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { describe, expect, onTestFinished, test, vi } from "vitest";
import { OutputTail } from "../../../src/host/io/output-tail.ts";
import { Terminals } from "../../../src/host/io/terminals.ts";
import { isAlive, temporaryDirectory } from "../harness.ts";

function terminals(): { terminals: Terminals; root: string } {
  const root = temporaryDirectory();
  const terminals = new Terminals(root, { PATH: process.env.PATH ?? "" }, 300);
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

  test("takes a whole command line", async () => {
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

  test("has no exit status while it runs; killed, its output can still be read", async () => {
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

  test("that ignores SIGTERM is killed all the same", async () => {
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

  test("cannot be somewhere else, or nothing at all", async () => {
    const { terminals: terms } = terminals();
    await expect(terms.create({ command: "pwd", cwd: "/" })).rejects.toMatchObject({ code: -32602 });
    await expect(terms.create({ command: "/no/such/command" })).rejects.toMatchObject({
      code: -32603,
      message: expect.stringContaining("ENOENT"),
    });
  });
});

describe("the tail of an output", () => {
  test("begins and ends with whole characters", () => {
    const bytes = Buffer.from("aé🙂ü");
    for (let limit = 0; limit <= bytes.length; limit++) {
      const tail = new OutputTail(limit);
      for (const byte of bytes) tail.push(Buffer.from([byte]));
      const { output, truncated } = tail.read();
      expect("aé🙂ü".endsWith(output)).toBe(true);
      expect(Buffer.byteLength(output)).toBeGreaterThan(limit - 4);
      expect(truncated).toBe(limit < bytes.length);
    }
    const tail = new OutputTail(100);
    tail.push(bytes.subarray(0, 5));
    expect(tail.read()).toEqual({ output: "aé", truncated: false });
  });
});
