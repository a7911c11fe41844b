import { type ChildProcessWithoutNullStreams, spawn } from "node:child_process";
import { setTimeout as sleep } from "node:timers/promises";
import { type Line, LineSplitter } from "../../node/line-splitter.ts";
import { LIMITS } from "../../protocol/limits.ts";
import { readPaced } from "../os/paced-reader.ts";
import { endGroup, type ProcessGroupListener } from "../os/process-group.ts";
import type { Redactor } from "./redactor.ts";
import { StderrTail } from "./stderr-tail.ts";

/** How long we listen to a process that left the group and kept the agent's stdout: while it speaks, and at most. */
const SILENCE_MS = 1000;
const LISTEN_MS = 5000;

export type ProcessEnd = { code: number | null; signal: string | null; stderr: string; error?: string };

export type ProcessHandlers = {
  /** All the lines that one read completed. */
  lines(lines: Line[]): void;
  /** What was written to stdin has been taken. */
  drained(): void;
  /** The last call: the process is gone and all it wrote has been read. */
  ended(end: ProcessEnd): void;
};

/** What is started, and what it gets to know. */
export type Launch = {
  command: readonly string[];
  env: Readonly<Record<string, string>>;
  /** For the commands it runs in terminals. */
  terminalEnv: Readonly<Record<string, string>>;
  /** Knows what must not leave the host. */
  redactor: Redactor;
  groups?: ProcessGroupListener | undefined;
};

/** An agent's operating system process: lines out, lines in, and its whole group ended with it. */
export class AgentProcess {
  readonly pid: number | null;
  /** Resolves when nothing of the process group is left. */
  readonly gone: Promise<void>;
  readonly #child: ChildProcessWithoutNullStreams;
  readonly #killAfterMs: number;
  #ending: Promise<void> | undefined;
  #bytesRead = 0;
  /** The group is gone: what is left in the pipe is small, and wanted whether there is room for it or not. */
  #draining = false;

  /** Throws if the command cannot even be tried. */
  constructor(launch: Launch, cwd: string, killAfterMs: number, handlers: ProcessHandlers) {
    const [file = "", ...args] = launch.command;
    const child = spawn(file, args, { cwd, env: launch.env, detached: true, stdio: "pipe" });
    this.#child = child;
    this.#killAfterMs = killAfterMs;
    this.pid = child.pid ?? null;

    const splitter = new LineSplitter();
    child.stdout.on("data", (chunk: Buffer) => {
      this.#bytesRead += chunk.length;
      handlers.lines(splitter.push(chunk));
    });

    const stderr = new StderrTail(LIMITS.stderrChars, launch.redactor);
    readPaced(child.stderr.setEncoding("utf8"), (text: string) => stderr.push(text));

    // Its end is reported by the process, not by the pipe.
    child.stdin.on("error", () => {});
    child.stdin.on("drain", () => handlers.drained());

    this.gone = new Promise((resolve) => {
      let error: string | undefined;
      child.on("error", (cause) => {
        error = cause.message;
      });
      child.on("exit", () => void this.#closeOutput());
      child.on("close", (code, signal) => {
        handlers.lines(splitter.end());
        // A process that never was has a negative error number for its exit code.
        const end = this.pid === null ? { code: null, signal: null } : { code, signal };
        handlers.ended({ ...end, stderr: stderr.read(), ...(error !== undefined && { error }) });
        resolve(this.#ending);
      });
    });
    if (this.pid === null) return;
    const { pid } = this;
    launch.groups?.began(pid);
    void this.gone.then(() => launch.groups?.ended(pid));
  }

  /** Bytes that the agent has not read from its stdin yet, beyond what the pipe holds. */
  get unreadInput(): number {
    return this.#child.stdin.writableLength;
  }

  write(frames: readonly string[]): void {
    if (this.#child.stdin.writable) this.#child.stdin.write(`${frames.join("\n")}\n`);
  }

  pause(): void {
    if (!this.#draining) this.#child.stdout.pause();
  }

  resume(): void {
    this.#child.stdout.resume();
  }

  stop(killAfterMs = this.#killAfterMs): void {
    this.#child.stdin.end();
    void this.#end(killAfterMs);
  }

  #end(killAfterMs = this.#killAfterMs): Promise<void> {
    this.#ending ??= this.pid === null ? Promise.resolve() : endGroup(this.pid, killAfterMs);
    return this.#ending;
  }

  /** Ends what the leader left behind, reads the rest, and lets go of the pipes even if somebody holds them. */
  async #closeOutput(): Promise<void> {
    await this.#end();
    const { stdout, stderr } = this.#child;
    this.#draining = true;
    stdout.resume();
    const deadline = Date.now() + LISTEN_MS;
    for (let seen = -1; seen !== this.#bytesRead && Date.now() < deadline; ) {
      seen = this.#bytesRead;
      await sleep(SILENCE_MS, undefined, { ref: false });
      if (stdout.closed && stderr.closed) return;
    }
    stdout.destroy();
    stderr.destroy();
  }
}
