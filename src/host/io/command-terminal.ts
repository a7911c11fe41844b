import type { ChildProcess } from "node:child_process";
import { randomUUID } from "node:crypto";
import { once } from "node:events";
import { StringDecoder } from "node:string_decoder";
import { setTimeout as sleep } from "node:timers/promises";
import type { Timing } from "../../node/timing.ts";
import type { Isolation } from "../isolation/isolation.ts";
import { readPaced } from "../os/paced-reader.ts";
import { endGroup, isGroupAlive, type ProcessGroup } from "../os/process-group.ts";
import { PROCESS_MARK } from "../os/process-mark.ts";
import type { OutputBudget } from "./output-budget.ts";
import type { OutputTail } from "./output-tail.ts";

/** How long the output may follow the exit: a background process keeps the pipe open. */
const TRAILING_MS = 250;

/** No process group has this number: a system's numbers end far below. */
const NO_GROUP = 2 ** 31 - 1;

export type ExitStatus = { exitCode: number | null; signal: string | null };

export type TerminalCommand = {
  command: string;
  args: readonly string[];
  env: Readonly<Record<string, string>>;
  cwd: string;
  output: OutputTail;
  isolation: Isolation;
  /** Called with each piece of the output, in whole characters. */
  onOutput(text: string): void;
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
  readonly #isolation: Isolation;
  readonly #mark = randomUUID();
  #status: ExitStatus | undefined;
  #isOutputClosed = false;
  /** No process is left, and the group's number may be reused. */
  #groupGone = false;

  /** Throws if the command cannot be started. */
  static async start(command: TerminalCommand, timing: TerminalTiming): Promise<CommandTerminal> {
    const terminal = new CommandTerminal(command, timing);
    await once(terminal.#child, "spawn");
    return terminal;
  }

  private constructor(options: TerminalCommand, { killAfterMs, terminalMs }: TerminalTiming) {
    const { command, args, cwd, output, isolation } = options;
    // Some agents send a whole command line as `command`.
    const words = args.length === 0 && /\s/.test(command) ? ["sh", "-c", command] : [command, ...args];
    const env = { ...options.env, [PROCESS_MARK]: this.#mark };
    const child = isolation.spawn(words, { cwd, env, hasInput: false });
    this.#isolation = isolation;
    this.#child = child;
    this.#killAfterMs = killAfterMs;
    this.#tail = output;
    for (const stream of [child.stdout, child.stderr]) {
      const decoder = new StringDecoder("utf8");
      if (stream)
        readPaced(stream, (chunk: Buffer) => {
          if (this.#isOutputClosed) return;
          this.#tail.push(chunk);
          options.onOutput(decoder.write(chunk));
        });
    }
    const deadline = setTimeout(() => void this.kill(), terminalMs).unref();
    const exit = new Promise<void>((resolve) => {
      child.on("exit", () => resolve());
    });
    this.gone = exit.then(() => this.#watchGroup());
    void this.gone.then(() => clearTimeout(deadline));
    this.exited = new Promise((resolve) => {
      child.on("exit", async (exitCode, signal) => {
        await Promise.race([once(child, "close"), sleep(TRAILING_MS)]);
        this.#status = isolation.exitOf(exitCode, signal);
        resolve(this.#status);
      });
    });
  }

  get group(): ProcessGroup {
    return this.#isolation.group(this.#child.pid as number, this.#mark);
  }

  /** Nobody can ask for the output any more. What still arrives is dropped. */
  closeOutput(outputs: OutputBudget): void {
    this.#isOutputClosed = true;
    outputs.close(this.#tail);
  }

  output(): { output: string; truncated: boolean; exitStatus?: ExitStatus } {
    return { ...this.#tail.read(), ...(this.#status && { exitStatus: this.#status }) };
  }

  /** Ends the command and all processes that it started. */
  async kill(): Promise<void> {
    if (this.#child.pid === undefined) return;
    const { leader, ...others } = this.group;
    // The number of a group that is gone may belong to others by now, but a mark is used once.
    await endGroup({ ...others, leader: this.#groupGone ? NO_GROUP : leader }, this.#killAfterMs);
  }

  /** A group's number is not reused while one of its processes is alive. */
  async #watchGroup(): Promise<void> {
    while (this.#child.pid !== undefined && isGroupAlive(this.#child.pid)) {
      await sleep(1000, undefined, { ref: false });
    }
    this.#groupGone = true;
  }
}
