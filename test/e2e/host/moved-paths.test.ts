/** Agents that rename directories above hidden ones, so that the host would cover the wrong place. */
import { spawnSync } from "node:child_process";
import { mkdirSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { describe, expect, onTestFinished, test } from "vitest";
import { temporaryDirectory } from "../../fixtures/temporary-directory.ts";
import type { FakeGateway, FakeSession } from "./fake-gateway.ts";
import { startHost } from "./harness.ts";
import { isolate, KINDS } from "./isolations.ts";

const NAMESPACES = KINDS.filter(({ user }) => user === undefined);
const SECRET = "STATE-SECRET";

type Answer = { result?: Record<string, string>; error?: { message: string } };

async function ask(
  gateway: FakeGateway,
  session: FakeSession,
  method: string,
  params: object,
): Promise<Answer> {
  const count = session.events("answer").length;
  const frame = { jsonrpc: "2.0", id: `t${count}`, method, params: { sessionId: "s", ...params } };
  session.tell("write", { chunks: [Buffer.from(`${JSON.stringify(frame)}\n`).toString("base64")] });
  return JSON.parse(await gateway.until(() => session.events<string>("answer")[count])) as Answer;
}

async function inAgent(gateway: FakeGateway, session: FakeSession, script: string): Promise<string> {
  const count = session.frames.length;
  session.tell("run", { command: "sh", args: ["-c", script] });
  const isAnswer = (frame: { ran?: unknown }) => frame.ran !== undefined;
  const { ran } = await gateway.until(() => session.frames.slice(count).find(isAnswer));
  return String(ran);
}

function makeState(state: string): string {
  mkdirSync(state, { recursive: true });
  writeFileSync(join(state, "key"), SECRET);
  return state;
}

describe.each(NAMESPACES)("an agent isolated by $name", (kind) => {
  test.each(["one", "one/two", "."])(
    "that renames %s finds no hidden file, and nothing starts",
    async (moved) => {
      const { gateway, root } = await startHost({
        isolation: (root) => isolate(kind, root, [makeState(join(root, "one/two/state"))]),
      });
      const session = await gateway.open("s");
      await gateway.until(() => session.frames.length);
      const from = join(root, moved);
      const to = moved === "." ? `${root}-moved` : join(root, "moved");
      onTestFinished(() => rmSync(to, { recursive: true, force: true }));
      const rename = `cd / && mv '${from}' '${to}' && mkdir -p '${root}/one/two/state' && echo renamed`;
      expect(await inAgent(gateway, session, rename)).toBe("renamed\n");

      const look = `cat $(find '${dirname(root)}' -name key 2>/dev/null) /dev/null; echo looked`;
      expect(await inAgent(gateway, session, look)).not.toContain(SECRET);
      const { error, result } = await ask(gateway, session, "terminal/create", { command: look });
      expect(result).toBeUndefined();
      expect(error?.message).toMatch(/one\/two\/state must stay hidden from agents/);
      for (const path of ["moved/key", "moved/state/key", "moved/two/state/key", "one/two/state/key"]) {
        const read = await ask(gateway, session, "fs/read_text_file", { path: join(root, path) });
        expect(read.error).toBeDefined();
      }
      const next = await gateway.open("t");
      await gateway.until(() => next.exit);
      expect(next.exit?.error).toMatch(/one\/two\/state must stay hidden from agents/);

      // The rename costs nothing for good.
      await inAgent(gateway, session, `cd / && rm -r '${from}' && mv '${to}' '${from}'`);
      const again = await ask(gateway, session, "terminal/create", { command: look });
      expect(again.error).toBeUndefined();
      await ask(gateway, session, "terminal/wait_for_exit", again.result ?? {});
      const output = await ask(gateway, session, "terminal/output", again.result ?? {});
      expect(output.result?.output).toContain("looked");
      expect(output.result?.output).not.toContain(SECRET);
    },
  );

  test.each([
    ["nothing", () => {}],
    ["another directory", (state: string) => void mkdirSync(state, { recursive: true })],
  ])("that renames a directory while a process starts, and leaves %s, gains no process", (_, leave) => {
    const root = temporaryDirectory();
    const state = makeState(join(root, "one/two/state"));
    const isolation = isolate(kind, root, [state]);
    const run = () => isolation.command(["sh", "-c", `cat '${root}'/*/two/state/key; echo ran`]);
    const [file, ...args] = run();
    expect(spawnSync(file, args, { cwd: root, encoding: "utf8" }).stdout).toBe("ran\n");
    renameSync(join(root, "one"), join(root, "moved"));
    leave(state);
    const { stdout, stderr, status } = spawnSync(file, args, { cwd: root, encoding: "utf8" });
    expect(stdout).toBe("");
    expect(status).not.toBe(0);
    expect(stderr).not.toBe("");
    expect(run).toThrow(/must stay hidden/);
  });

  test.runIf(process.getuid?.() === 0)("cannot change the machine, even as root", () => {
    const root = temporaryDirectory();
    const look =
      "find /sys /proc/sys /proc/sysrq-trigger -type f -writable 2>/dev/null | head -3; echo looked";
    const [file, ...args] = isolate(kind, root).command(["sh", "-c", look]);
    expect(spawnSync(file, args, { cwd: root, encoding: "utf8" }).stdout).toBe("looked\n");
  });
});
