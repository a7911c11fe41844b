/** The published acpx, with the bridge as its agent. */
import { type ChildProcess, spawn } from "node:child_process";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import type { SessionUpdate } from "@agentclientprotocol/sdk";
import { afterAll, beforeAll, expect, onTestFinished, test } from "vitest";
import { type ProcessEntry, processTable } from "../../src/cli/local/process-tree.ts";
import { loggedUpdates, parse, readLog } from "./client.ts";
import { type Outcome, Running } from "./command.ts";
import { eventually, type Gateway, startGateway } from "./gateway.ts";
import { streamed, upTo } from "./updates.ts";

const ACPX = fileURLToPath(new URL("../../node_modules/acpx/dist/cli.js", import.meta.url));
const COMMAND = fileURLToPath(new URL("../../src/cli/command/main.ts", import.meta.url));

let gateway: Gateway;
beforeAll(async () => {
  gateway = await startGateway();
});
afterAll(() => gateway?.[Symbol.asyncDispose]());

/** A person with acpx, a home and a directory to work in. */
class Person {
  readonly home = mkdtempSync(join(tmpdir(), "acp-edge-acpx-"));
  /** How long acpx keeps a connection for another prompt. */
  keepsSeconds = 1;

  constructor() {
    onTestFinished(async () => {
      await eventually(() => this.processes().length === 0);
      rmSync(this.home, { recursive: true, force: true });
    });
  }

  start(...args: string[]): Running {
    const agent = `${process.execPath} ${COMMAND} connect --log ${join(this.home, "bridge.log")}`;
    const child: ChildProcess = spawn(
      process.execPath,
      [ACPX, "--agent", agent, "--cwd", this.home, "--ttl", String(this.keepsSeconds), ...args],
      {
        stdio: "pipe",
        env: {
          PATH: process.env.PATH,
          HOME: this.home,
          ACP_EDGE_URL: gateway.url,
          ACP_EDGE_TOKEN: gateway.token,
        },
      },
    );
    child.stdin?.end();
    return new Running(child);
  }

  async run(...args: string[]): Promise<Outcome> {
    const outcome = await this.start(...args).ended;
    expect(outcome, args.join(" ")).toMatchObject({ code: 0 });
    return outcome;
  }

  async newSession(): Promise<string> {
    return (await this.run("sessions", "new")).stdout.trim();
  }

  /** All processes of acpx: acpx itself, its queue owners, and bridges. */
  processes(): ProcessEntry[] {
    return processTable().filter(({ command }) => command.includes(this.home));
  }

  bridge(): ProcessEntry | undefined {
    return this.processes().find(({ command }) => !command.includes(ACPX));
  }
}

/** The updates in the frames that acpx prints. */
function updates(stdout: string): SessionUpdate[] {
  const messages = stdout.split("\n").flatMap((line) => (line.startsWith("{") ? parse(line) : []));
  return messages.flatMap(({ params }) => params?.update ?? []);
}

test("acpx creates a session, prompts, answers permissions, lists and closes", async () => {
  const person = new Person();
  // acpx closes the agent's session only while it holds a connection.
  person.keepsSeconds = 30;
  const sessionId = await person.newSession();
  const says = async (...args: string[]) => (await person.run(...args)).stdout;
  expect(await says("--approve-all", "prompt", "/permission Do it")).toContain("Permission selected: allow");
  expect(await says("--deny-all", "prompt", "/permission Do it")).toContain("Permission selected: reject");
  expect(await says("prompt", "/history")).toContain("prompts: 3");
  expect(await says("sessions", "list")).toContain(sessionId);
  await person.run("sessions", "close");
  const view = await (await gateway.api(`/api/sessions/${sessionId}`)).json();
  expect(view).toMatchObject({ lifecycle: { closed: true } });
});

test("acpx gets one prompt answered without a session of its own", async () => {
  const { stdout } = await new Person().run("--approve-all", "exec", "/permission Do it");
  expect(stdout).toContain("Permission selected: allow");
});

test("acpx continues the session after the bridge was killed in mid-turn", async () => {
  const person = new Person();
  const sessionId = await person.newSession();
  const count = 400;
  const turn = person.start("--format", "json", "prompt", `/stream ${count} 30 10`);
  await turn.prints("000050 ");
  process.kill(person.bridge()?.pid as number, "SIGKILL");
  const before = streamed(updates((await turn.ended).stdout));
  const next = await person.run("--format", "json", "prompt", "/history");

  // The turn went on without acpx, and the next turn belongs to the same conversation.
  expect(next.stdout).toContain("prompts: 2");
  const log = await readLog(gateway, sessionId);
  expect(streamed(loggedUpdates(log))).toEqual(upTo(count));
  expect(log.filter(({ kind }) => kind === "turn.completed")).toHaveLength(2);
  // acpx saw the turn up to the kill and from the reconnect on.
  expect(before.length).toBeGreaterThan(50);
  expect(before).toEqual(upTo(before.length));
  const after = streamed(updates(next.stdout));
  expect(after).toEqual(upTo(count).slice(count - after.length));
});
