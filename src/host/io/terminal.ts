import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { setTimeout as sleep } from "node:timers/promises";
import { endGroup, groupLives } from "../processes.ts";
import { OutputTail } from "./output-tail.ts";

/** How long the output may trail behind the exit: a process left in the background keeps the pipe open. */
const TRAILING_MS = 250;

export type ExitStatus = { exitCode: number | null; signal: string | null };

export type TerminalCommand = {
  command: string;
  args: readonly string[];
  env: Readonly<Record<string, string>>;
  cwd: string;
  outputByteLimit: number;
};

/** A command that an agent runs in the workspace. */
export class Terminal {
  /** Resolves when the command has ended and its output is complete. */
  readonly exited: Promise<ExitStatus>;
  readonly #child: ChildProcess;
  readonly #killAfterMs: number;
  readonly #tail: OutputTail;
  #status: ExitStatus | undefined;
  /** Nothing is left to be ended, and the group's number may soon be somebody else's. */
  #groupGone = false;

  /** Throws if the command cannot be started. */
  static async start(command: TerminalCommand, killAfterMs: number): Promise<Terminal> {
    const terminal = new Terminal(command, killAfterMs);
    await once(terminal.#child, "spawn");
    return terminal;
  }

  private constructor(options: TerminalCommand, killAfterMs: number) {
    const { command, args, env, cwd, outputByteLimit } = options;
    // Some agents send a whole command line as the command.
    const [file, argv] = args.length === 0 && /\s/.test(command) ? ["sh", ["-c", command]] : [command, args];
    const child = spawn(file, argv, {
      cwd,
      env,
      detached: true,
      stdio: ["ignore", "pipe", "pipe"],
    });
    this.#child = child;
    this.#killAfterMs = killAfterMs;
    this.#tail = new OutputTail(outputByteLimit);
    child.stdout.on("data", (chunk: Buffer) => this.#tail.push(chunk));
    child.stderr.on("data", (chunk: Buffer) => this.#tail.push(chunk));
    this.exited = new Promise((resolve) => {
      child.on("exit", async (exitCode, signal) => {
        void this.#watchGroup();
        await Promise.race([once(child, "close"), sleep(TRAILING_MS)]);
        this.#status = { exitCode, signal };
        resolve(this.#status);
      });
    });
  }

  output(): { output: string; truncated: boolean; exitStatus?: ExitStatus } {
    return { ...this.#tail.read(), ...(this.#status && { exitStatus: this.#status }) };
  }

  /** Ends the command and all it started. */
  async kill(): Promise<void> {
    if (!this.#groupGone && this.#child.pid !== undefined) await endGroup(this.#child.pid, this.#killAfterMs);
  }

  /** While one of its processes lives, a group's number is not given to another. */
  async #watchGroup(): Promise<void> {
    while (this.#child.pid !== undefined && groupLives(this.#child.pid)) {
      await sleep(1000, undefined, { ref: false });
    }
    this.#groupGone = true;
  }
}
