import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { setTimeout as sleep } from "node:timers/promises";
import type { Timing } from "../../node/timing.ts";
import { readPaced } from "../os/paced-reader.ts";
import { endGroup, isGroupAlive } from "../os/process-group.ts";
import { OutputTail } from "./output-tail.ts";

/** How long the output may follow the exit: a background process keeps the pipe open. */
const TRAILING_MS = 250;

export type ExitStatus = { exitCode: number | null; signal: string | null };

export type TerminalCommand = {
  command: string;
  args: readonly string[];
  env: Readonly<Record<string, string>>;
  cwd: string;
  outputByteLimit: number;
};

export type TerminalTiming = Pick<Timing, "killAfterMs" | "terminalMs">;

/** A command that an agent runs in the workspace. */
export class CommandTerminal {
  /** Resolves when the command has ended and its output is complete. */
  readonly exited: Promise<ExitStatus>;
  /** Resolves when no process of the command is left. */
  readonly gone: Promise<void>;
  readonly #child: ChildProcess;
  readonly #killAfterMs: number;
  readonly #tail: OutputTail;
  #status: ExitStatus | undefined;
  /** No process is left, and the group's number may be reused. */
  #groupGone = false;

  /** Throws if the command cannot be started. */
  static async start(command: TerminalCommand, timing: TerminalTiming): Promise<CommandTerminal> {
    const terminal = new CommandTerminal(command, timing);
    await once(terminal.#child, "spawn");
    return terminal;
  }

  private constructor(options: TerminalCommand, { killAfterMs, terminalMs }: TerminalTiming) {
    const { command, args, env, cwd, outputByteLimit } = options;
    // Some agents send a whole command line as `command`.
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
    for (const stream of [child.stdout, child.stderr])
      readPaced(stream, (chunk: Buffer) => this.#tail.push(chunk));
    const deadline = setTimeout(() => void this.kill(), terminalMs).unref();
    const exit = new Promise<void>((resolve) => {
      child.on("exit", () => resolve());
    });
    this.gone = exit.then(() => this.#watchGroup());
    void this.gone.then(() => clearTimeout(deadline));
    this.exited = new Promise((resolve) => {
      child.on("exit", async (exitCode, signal) => {
        await Promise.race([once(child, "close"), sleep(TRAILING_MS)]);
        this.#status = { exitCode, signal };
        resolve(this.#status);
      });
    });
  }

  /** The number of the command's process group. */
  get group(): number {
    return this.#child.pid as number;
  }

  output(): { output: string; truncated: boolean; exitStatus?: ExitStatus } {
    return { ...this.#tail.read(), ...(this.#status && { exitStatus: this.#status }) };
  }

  /** Ends the command and all processes that it started. */
  async kill(): Promise<void> {
    if (!this.#groupGone && this.#child.pid !== undefined) await endGroup(this.#child.pid, this.#killAfterMs);
  }

  /** A group's number is not reused while one of its processes is alive. */
  async #watchGroup(): Promise<void> {
    while (this.#child.pid !== undefined && isGroupAlive(this.#child.pid)) {
      await sleep(1000, undefined, { ref: false });
    }
    this.#groupGone = true;
  }
}
