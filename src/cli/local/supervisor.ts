import { type ChildProcess, type Serializable, spawn } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";
import { descendants } from "./process-tree.ts";

/** A process that ran this long is forgiven its earlier failures. */
const BACKOFF = { firstDelayMs: 250, longestDelayMs: 10_000, stableMs: 30_000 };

type Launch = {
  name: string;
  /** A script and its arguments, for this same Node. */
  args: string[];
  env?: Record<string, string>;
  /** How long it may take to end before it is killed. */
  graceSeconds: number;
  /** Its first message over the channel. */
  hello?: Serializable;
  onMessage?: (message: unknown) => void;
};

/** A child process in its own process group, started again with backoff whenever it ends by itself. */
export class Supervised {
  readonly #launch: Launch;
  readonly #guard: Guard;
  readonly #log: (line: string) => void;
  #child: ChildProcess | undefined;
  #ended: Promise<void> = Promise.resolve();
  #timer: NodeJS.Timeout | undefined;
  #failures = 0;
  #state: "running" | "restarting" | "stopped" = "running";

  constructor(launch: Launch, guard: Guard, log: (line: string) => void) {
    this.#launch = launch;
    this.#guard = guard;
    this.#log = log;
    this.#start();
  }

  /** Ends the process and starts it again without delay: its sources have changed. */
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
    const { name, args, env, graceSeconds, hello, onMessage } = this.#launch;
    const startedAt = Date.now();
    const child = spawn(process.execPath, args, {
      detached: true,
      env: { ...process.env, ...env },
      // Both the pipe to its stdin and the channel close when the runner dies: it may notice either.
      stdio: ["pipe", "pipe", "pipe", "ipc"],
    });
    this.#child = child;
    this.#ended = new Promise((resolve) => {
      const onEnd = (how: string) => {
        if (this.#child !== child) return;
        this.#child = undefined;
        if (child.pid !== undefined) this.#guard.release(child.pid);
        this.#afterEnd(how, Date.now() - startedAt);
        resolve();
      };
      child.once("error", (error) => onEnd(error.message));
      child.once("exit", (code, signal) => onEnd(signal ?? `exit code ${code}`));
    });
    if (child.pid !== undefined) this.#guard.watch(child.pid, graceSeconds);
    if (onMessage) child.on("message", onMessage);
    // An error here means it has ended already, which is seen to above.
    if (hello !== undefined) child.send(hello, () => {});
    for (const output of [child.stdout, child.stderr]) {
      if (output) createInterface({ input: output }).on("line", (line) => this.#log(`[${name}] ${line}`));
    }
  }

  #afterEnd(how: string, uptimeMs: number): void {
    if (this.#state === "stopped") return;
    const asked = this.#state === "restarting";
    this.#state = "running";
    if (uptimeMs > BACKOFF.stableMs) this.#failures = 0;
    const delay = asked ? 0 : Math.min(BACKOFF.firstDelayMs * 2 ** this.#failures++, BACKOFF.longestDelayMs);
    if (!asked) this.#log(`[${this.#launch.name}] ended (${how}), starting again in ${delay} ms`);
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

/** Reads lists of `group/grace`, each replacing the one before; at end of input, ends those in the last. */
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
 * Sees to it that no process group outlives the runner. A handler cannot: kill -9 runs none. So a shell
 * waits on a pipe that closes when the runner is gone, in whichever way.
 */
export class Guard {
  /** Process group → grace in seconds. */
  readonly #groups = new Map<number, number>();
  readonly #shell = spawn("/bin/sh", ["-c", GUARD_SCRIPT], {
    detached: true,
    stdio: ["pipe", "ignore", "ignore"],
  });

  constructor() {
    // Without the shell we lose a safety net, not the run.
    this.#shell.on("error", () => {});
    this.#shell.stdin.on("error", () => {});
  }

  watch(group: number, graceSeconds: number): void {
    this.#groups.set(group, graceSeconds);
    this.#tell();
  }

  /** The group's leader has ended; whatever it left behind ends too. */
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

/** A group and everything below its leader: agents and terminals lead groups of their own. */
function killTree(leader: number | undefined): void {
  if (leader === undefined) return;
  const below = attempt(() => descendants(leader)) ?? [];
  killGroup(leader);
  for (const { pid } of below) attempt(() => process.kill(pid, "SIGKILL"));
}

function killGroup(group: number): void {
  attempt(() => process.kill(-group, "SIGKILL"));
}

/** For what can only fail because there is nothing left to kill, or no `ps` to find it with. */
function attempt<T>(action: () => T): T | undefined {
  try {
    return action();
  } catch {
    return undefined;
  }
}
