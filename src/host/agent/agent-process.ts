import type { ChildProcessWithoutNullStreams } from "node:child_process";
import { randomUUID } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import { type Line, LineSplitter } from "../../node/line-splitter.ts";
import type { Timing } from "../../node/timing.ts";
import type { Limits } from "../../protocol/limits.ts";
import type { OutputBudget } from "../io/output-budget.ts";
import { hasPipes, type Isolation } from "../isolation/isolation.ts";
import { readPaced } from "../os/paced-reader.ts";
import { endGroup, type ProcessGroup, type ProcessGroupListener } from "../os/process-group.ts";
import { PROCESS_MARK } from "../os/process-mark.ts";
import type { Redactor } from "../redaction/redactor.ts";
import { StderrTail } from "./stderr-tail.ts";

/**
 * A process that has left the group may still hold the agent's stdout. We read from it until it has been silent
 * for `SILENCE_MS`, and at most for `TRAILING_OUTPUT_MS`.
 */
const SILENCE_MS = 1000;
const TRAILING_OUTPUT_MS = 5000;

export type ProcessEnd = { code: number | null; signal: string | null; stderr: string; error?: string };

export type ProcessHandlers = {
  /** All lines that one read completed. */
  lines(lines: Line[]): void;
  /** The agent has read everything that was written to its stdin. */
  drained(): void;
  /** The last call: the process has exited and all of its output has been read. */
  ended(end: ProcessEnd): void;
};

/** How an agent process is started, and with which environment. */
export type Launch = {
  command: readonly string[];
  /** The first request to the agent, with the capabilities that it is offered. */
  initialize: string;
  env: Readonly<Record<string, string>>;
  /** The environment of the commands that the agent runs in terminals. */
  terminalEnv: Readonly<Record<string, string>>;
  /** Removes secrets from everything that leaves the host. */
  redactor: Redactor;
  groups?: ProcessGroupListener | undefined;
};

/** Where an agent process runs, and the bounds that it obeys. */
export type ProcessContext = {
  /** The workspace's directory, a real path. */
  root: string;
  timing: Timing;
  limits: Limits;
  isolation: Isolation;
  /** The memory for the outputs of all terminals of the host. */
  outputs: OutputBudget;
};

/** The operating system process of an agent: lines in, lines out, and a process group that ends as a whole. */
export class AgentProcess {
  readonly pid: number | null;
  /** Resolves when no process of the group is left. */
  readonly gone: Promise<void>;
  readonly #child: ChildProcessWithoutNullStreams;
  readonly #splitter: LineSplitter;
  readonly #killAfterMs: number;
  readonly #mark = randomUUID();
  readonly #isolation: Isolation;
  #ending: Promise<void> | undefined;
  #bytesRead = 0;
  /** The group has ended. The rest of the pipe is small and is read even if the outbox is full. */
  #draining = false;

  /** Throws if the command cannot be spawned at all. */
  constructor(launch: Launch, context: ProcessContext, handlers: ProcessHandlers) {
    const { root, timing, limits, isolation } = context;
    const env = { ...launch.env, [PROCESS_MARK]: this.#mark };
    const child = isolation.spawn(launch.command, { cwd: root, env, hasInput: true });
    if (!hasPipes(child)) throw new Error("the process has no pipes");
    this.#isolation = isolation;
    this.#child = child;
    this.#killAfterMs = timing.killAfterMs;
    this.pid = child.pid ?? null;

    const splitter = new LineSplitter(limits.frameChars);
    this.#splitter = splitter;
    child.stdout.on("data", (chunk: Buffer) => {
      this.#bytesRead += chunk.length;
      handlers.lines(splitter.push(chunk));
    });

    const stderr = new StderrTail(limits.stderrChars, launch.redactor);
    readPaced(child.stderr.setEncoding("utf8"), (text: string) => stderr.push(text));

    // The exit of the process reports its end; an error of the pipe adds nothing.
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
        // For a process that never started, Node reports a negative error number as the exit code.
        const end = this.pid === null ? { exitCode: null, signal: null } : isolation.exitOf(code, signal);
        handlers.ended({
          code: end.exitCode,
          signal: end.signal,
          stderr: stderr.read(),
          ...(error !== undefined && { error }),
        });
        resolve(this.#ending);
      });
    });
    if (this.pid === null) return;
    const { pid } = this;
    launch.groups?.groupStarted(pid);
    void this.gone.then(() => launch.groups?.groupEnded(pid));
  }

  /** Bytes that wait for the agent to read its stdin, not counting the pipe's own buffer. */
  get unreadInput(): number {
    return this.#child.stdin.writableLength;
  }

  /** The session takes no larger frames. */
  limitFrames(frameChars: number): void {
    this.#splitter.limit(frameChars);
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

  /** Without time to end by itself, the process is not asked to. */
  stop(killAfterMs = this.#killAfterMs): void {
    if (killAfterMs > 0) this.#child.stdin.end();
    void this.#end(killAfterMs);
  }

  #end(killAfterMs = this.#killAfterMs): Promise<void> {
    const { group } = this;
    this.#ending ??= group ? endGroup(group, killAfterMs) : Promise.resolve();
    return this.#ending;
  }

  /** Null if the process could not be started. */
  get group(): ProcessGroup | null {
    return this.pid === null ? null : this.#isolation.group(this.pid, this.#mark);
  }

  /** Ends the rest of the group, reads the remaining output, and closes the pipes even if a process still holds them. */
  async #closeOutput(): Promise<void> {
    await this.#end();
    const { stdout, stderr } = this.#child;
    this.#draining = true;
    stdout.resume();
    const deadline = Date.now() + TRAILING_OUTPUT_MS;
    for (let seen = -1; seen !== this.#bytesRead && Date.now() < deadline; ) {
      seen = this.#bytesRead;
      await sleep(SILENCE_MS, undefined, { ref: false });
      if (stdout.closed && stderr.closed) return;
    }
    stdout.destroy();
    stderr.destroy();
  }
}
