/** The `acp-edge` command as a real process, piped or on a terminal. */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { onTestFinished } from "vitest";
import { Changes } from "./changes.ts";
import type { Gateway } from "./gateway.ts";

const MAIN = fileURLToPath(new URL("../../src/cli/command/main.ts", import.meta.url));
const PATIENCE_MS = 20_000;

/** The program that starts the command: our own Node with the source, unless a test has another. */
export type Program = readonly [string, ...string[]];
const SOURCE: Program = [process.execPath, MAIN];

export type Environment = Record<string, string>;
export type Outcome = { code: number | null; stdout: string; stderr: string };

/** The environment of a user who has configured this gateway and nothing else. */
export function environmentOf(gateway: Pick<Gateway, "url" | "token">): Environment {
  return { ...emptyEnvironment(), ACP_EDGE_URL: gateway.url, ACP_EDGE_TOKEN: gateway.token };
}

/** The environment of a user who has configured nothing. */
export function emptyEnvironment(): Environment {
  const home = mkdtempSync(join(tmpdir(), "acp-edge-home-"));
  onTestFinished(() => rmSync(home, { recursive: true, force: true }));
  const own = {
    PATH: process.env.PATH ?? "",
    HOME: home,
    XDG_CONFIG_HOME: join(home, "config"),
    TERM: "xterm",
  };
  // The keys of the gateways of this file are there.
  return { ...own, XDG_STATE_HOME: process.env.XDG_STATE_HOME ?? "" };
}

/** Runs the command to its end. */
export async function acpEdge(
  args: readonly string[],
  env: Environment,
  { input = "", program = SOURCE }: { input?: string; program?: Program } = {},
): Promise<Outcome> {
  const running = startAcpEdge(args, env, program);
  running.child.stdin?.end(input);
  return running.ended;
}

/** A running command and its output so far. */
export class Running {
  readonly child: ChildProcess;
  readonly ended: Promise<Outcome>;
  stdout = "";
  stderr = "";
  readonly #changes = new Changes();

  constructor(child: ChildProcess) {
    this.child = child;
    child.stdout?.setEncoding("utf8").on("data", (text: string) => {
      this.stdout += text;
      this.#wake();
    });
    child.stderr?.setEncoding("utf8").on("data", (text: string) => {
      this.stderr += text;
      this.#wake();
    });
    this.ended = once(child, "close").then(([code]) => {
      this.#wake();
      return { code: code as number | null, stdout: this.stdout, stderr: this.stderr };
    });
  }

  /** Waits until the command has printed this on either stream. */
  async prints(text: string): Promise<void> {
    const deadline = Date.now() + PATIENCE_MS;
    while (!this.stdout.includes(text) && !this.stderr.includes(text)) {
      if (this.child.exitCode !== null || Date.now() > deadline)
        throw new Error(`It never printed ${JSON.stringify(text)}:\n${this.stdout}\n${this.stderr}`);
      await this.#changes.next(deadline);
    }
  }

  type(keys: string): void {
    this.child.stdin?.write(keys);
  }

  #wake(): void {
    this.#changes.announce();
  }
}

export function startAcpEdge(args: readonly string[], env: Environment, program: Program = SOURCE): Running {
  const [node, ...before] = program;
  return started(spawn(node, [...before, ...args], { env, stdio: "pipe" }));
}

/** Runs the command on a pseudo-terminal. */
export function startOnTerminal(args: readonly string[], env: Environment): Running {
  const words = [...SOURCE, ...args].map((word) => `'${word.replaceAll("'", "'\\''")}'`).join(" ");
  const line = `stty cols 120 rows 40; exec ${words}`;
  return started(spawn("script", ["-qefc", line, "/dev/null"], { env, stdio: "pipe" }));
}

function started(child: ChildProcess): Running {
  onTestFinished(() => void child.kill("SIGKILL"));
  return new Running(child);
}

/** The single document a command prints with `--json`. */
export function document<T>({ code, stdout }: Outcome): T {
  if (code !== 0 || !stdout.endsWith("\n") || stdout.trimEnd().includes("\n"))
    throw new Error(`Not one document, code ${code}: ${stdout}`);
  return JSON.parse(stdout) as T;
}
