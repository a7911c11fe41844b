import { type ChildProcess, type Serializable, spawn } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";
import { Writable } from "node:stream";
import { withoutTokens } from "../../node/token-variables.ts";
import { descendants } from "./process-tree.ts";

/**
 * A process that was ready, or has run for `stableMs`, starts with the first delay again: its start is not at fault.
 * Clients and agents wait meanwhile, so the longest delay is short.
 */
const BACKOFF = { firstDelayMs: 250, longestDelayMs: 2_000, stableMs: 30_000 };

/** The descriptor after stdin, stdout, stderr and the channel. */
export const SECRET_FD = 4;

type Launch = {
  name: string;
  /** A script and its arguments, run by the current Node. */
  args: string[];
  env?: Record<string, string>;
  /** A text that the process reads from descriptor `SECRET_FD`; an environment would show it to other processes. */
  secret?: string;
  /** How long the process may take to end before it is killed. */
  graceSeconds: number;
  /** Called if the process ends with one of these exit codes, with which it would end again. It is not restarted. */
  final?: { codes: readonly number[]; onEnd(code: number): void };
  /** The first message to the process over the channel. */
  hello?: Serializable;
  onMessage?: (message: unknown) => void;
};

/** A child process in its own process group that is restarted with backoff whenever it ends by itself. */
export class Supervised {
  readonly #launch: Launch;
  readonly #guard: Guard;
  readonly #log: (line: string) => void;
  #child: ChildProcess | undefined;
  #ended: Promise<void> = Promise.resolve();
  #timer: NodeJS.Timeout | undefined;
  #failures = 0;
  #isReady = false;
  #state: "running" | "restarting" | "stopped" = "running";

  constructor(launch: Launch, guard: Guard, log: (line: string) => void) {
    this.#launch = launch;
    this.#guard = guard;
    this.#log = log;
    this.#start();
  }

  /** The process has said that it works. */
  markReady(): void {
    this.#isReady = true;
  }

  /** Restarts the process without delay, because its sources have changed. */
  restart(): void {
    if (this.#state !== "running" || !this.#child) return;
    this.#state = "restarting";
    void this.#end();
  }

  async stop(): Promise<void> {
    this.#state = "stopped";
    clearTimeout(this.#timer);
    await this.#end();
  }

  #start(): void {
    const { name, args, env, secret, graceSeconds, hello, onMessage } = this.#launch;
    const startedAt = Date.now();
    this.#isReady = false;
    const child = spawn(process.execPath, args, {
      detached: true,
      env: { ...withoutTokens(process.env), ...env },
      // The pipe to stdin and the channel both close when the runner dies, so the child can watch either.
      stdio: ["pipe", "pipe", "pipe", "ipc", ...(secret === undefined ? [] : ["pipe" as const])],
    });
    this.#child = child;
    if (secret !== undefined) give(child.stdio[SECRET_FD], secret);
    this.#ended = new Promise((resolve) => {
      const onEnd = (how: string, code: number | null) => {
        if (this.#child !== child) return;
        this.#child = undefined;
        if (child.pid !== undefined) this.#guard.release(child.pid);
        if (!this.#endsFinally(code)) this.#afterEnd(how, Date.now() - startedAt);
        resolve();
      };
      child.once("error", (error) => onEnd(error.message, null));
      child.once("exit", (code, signal) => onEnd(signal ?? `exit code ${code}`, code));
    });
    if (child.pid !== undefined) this.#guard.watch(child.pid, graceSeconds);
    if (onMessage) child.on("message", onMessage);
    // An error means that the child has ended already, which is handled above.
    if (hello !== undefined) child.send(hello, () => {});
    for (const output of [child.stdout, child.stderr]) {
      if (output) createInterface({ input: output }).on("line", (line) => this.#log(`[${name}] ${line}`));
    }
  }

  #endsFinally(code: number | null): boolean {
    const { final } = this.#launch;
    if (code === null || this.#state !== "running" || !final?.codes.includes(code)) return false;
    this.#state = "stopped";
    final.onEnd(code);
    return true;
  }

  #afterEnd(how: string, uptimeMs: number): void {
    if (this.#state === "stopped") return;
    const asked = this.#state === "restarting";
    this.#state = "running";
    if (this.#isReady || uptimeMs > BACKOFF.stableMs) this.#failures = 0;
    const delay = asked ? 0 : Math.min(BACKOFF.firstDelayMs * 2 ** this.#failures++, BACKOFF.longestDelayMs);
    if (!asked) this.#log(`[${this.#launch.name}] ended (${how}), restarting in ${delay} ms`);
    this.#timer = setTimeout(() => this.#start(), delay);
  }

  async #end(): Promise<void> {
    const child = this.#child;
    if (!child) return;
    child.kill("SIGTERM");
    const timer = setTimeout(() => killTree(child.pid), this.#launch.graceSeconds * 1000);
    await this.#ended;
    clearTimeout(timer);
  }
}

function give(stream: ChildProcess["stdio"][typeof SECRET_FD], secret: string): void {
  if (!(stream instanceof Writable)) return;
  // An error means that the child has ended already.
  stream.on("error", () => {});
  stream.end(secret);
}

/** Reads lists of `group/grace`, each of which replaces the previous list, and at end of input ends the listed groups. */
const GUARD_SCRIPT = `
end() {
  kill -s TERM -- "-$1"
  waited=0
  while [ "$waited" -lt "$2" ] && kill -s 0 -- "-$1"; do sleep 1; waited=$((waited + 1)); done
  kill -s KILL -- "-$1"
}
while read -r line; do groups=$line; done
for entry in $groups; do end "\${entry%/*}" "\${entry#*/}" & done
wait
`;

/**
 * Ensures that no process group outlives the runner. An exit handler is not enough, because kill -9 runs none.
 * Therefore a shell waits on a pipe that closes when the runner ends in any way.
 */
export class Guard {
  /** Process group → grace in seconds. */
  readonly #groups = new Map<number, number>();
  readonly #shell = spawn("/bin/sh", ["-c", GUARD_SCRIPT], {
    detached: true,
    stdio: ["pipe", "ignore", "ignore"],
  });

  constructor() {
    // Without the shell only this safety net is missing.
    this.#shell.on("error", () => {});
    this.#shell.stdin.on("error", () => {});
  }

  watch(group: number, graceSeconds: number): void {
    this.#groups.set(group, graceSeconds);
    this.#tell();
  }

  /** Kills the rest of a group whose leader has ended. */
  release(group: number): void {
    killGroup(group);
    this.#groups.delete(group);
    this.#tell();
  }

  killAll(): void {
    for (const group of this.#groups.keys()) killTree(group);
  }

  async close(): Promise<void> {
    if (this.#shell.pid === undefined || this.#shell.exitCode !== null || this.#shell.signalCode !== null)
      return;
    const ended = once(this.#shell, "exit");
    this.#shell.stdin.end();
    await ended;
  }

  #tell(): void {
    const entries = [...this.#groups].map(([group, grace]) => `${group}/${grace}`);
    this.#shell.stdin.write(`${entries.join(" ")}\n`);
  }
}

/** Kills a group and all descendants of its leader, because agents and terminals lead groups of their own. */
function killTree(leader: number | undefined): void {
  if (leader === undefined) return;
  const below = attempt(() => descendants(leader)) ?? [];
  killGroup(leader);
  for (const { pid } of below) attempt(() => process.kill(pid, "SIGKILL"));
}

function killGroup(group: number): void {
  attempt(() => process.kill(-group, "SIGKILL"));
}

/** Ignores failures, which mean that no process is left to kill, or that `ps` is missing. */
function attempt<T>(action: () => T): T | undefined {
  try {
    return action();
  } catch {
    return undefined;
  }
}
