import { execFile } from "node:child_process";
import { type FSWatcher, watch } from "node:fs";
import { join } from "node:path";
import { promisify } from "node:util";
import type { Timing } from "../../node/timing.ts";
import type { GitState } from "../../protocol/host-wire.ts";
import { plainEnvironment } from "../agent/agent-environment.ts";
import { GIT_STATUS, parseGitStatus } from "./git-status.ts";

const run = promisify(execFile);
const OUTPUT_MAX = 64 * 1024 * 1024;

/**
 * Follows the workspace's git state. Git's own directory is watched, the work tree is not: it may be huge, and
 * what changes there during a turn is the agent's doing, of which we hear anyway. So we look when there was a
 * sign, never twice at a time, and tell only what is new.
 */
export class GitWatch {
  readonly #root: string;
  readonly #timing: Timing;
  readonly #changed: (git: GitState | null) => void;
  /** Undefined until the first look. */
  #known: string | undefined;
  #watchers: FSWatcher[] = [];
  #gitDir: string | null = null;
  #timer: NodeJS.Timeout | undefined;
  #poll: NodeJS.Timeout | undefined;
  #looking = false;
  #again = false;
  #lookedAt = 0;
  #idle: Promise<void> = Promise.resolve();
  readonly #abort = new AbortController();
  #closed = false;

  constructor(root: string, timing: Timing, changed: (git: GitState | null) => void) {
    this.#root = root;
    this.#timing = timing;
    this.#changed = changed;
    this.#idle = this.#look();
  }

  /** Undefined: not known yet. */
  get state(): GitState | null | undefined {
    return this.#known === undefined ? undefined : (JSON.parse(this.#known) as GitState | null);
  }

  /** Something may have changed. Cheap: called for whatever an agent prints. */
  touch(): void {
    if (this.#looking) this.#again = true;
    if (this.#looking || this.#timer || this.#closed) return;
    const rested = this.#lookedAt + this.#timing.gitEveryMs - Date.now();
    const look = () => {
      this.#idle = this.#look();
    };
    this.#timer = setTimeout(look, Math.max(this.#timing.gitDelayMs, rested));
    this.#timer.unref();
  }

  /** While agents run, even what leaves no sign is found in the end. */
  set busy(busy: boolean) {
    clearInterval(this.#poll);
    this.#poll = busy ? setInterval(() => this.touch(), this.#timing.gitPollMs).unref() : undefined;
  }

  /** Resolves when it does not look any more, closed or not. */
  get idle(): Promise<void> {
    return this.#idle;
  }

  close(): void {
    this.#closed = true;
    this.#abort.abort();
    clearTimeout(this.#timer);
    clearInterval(this.#poll);
    this.#unwatch();
  }

  async #look(): Promise<void> {
    this.#timer = undefined;
    this.#looking = true;
    this.#again = false;
    try {
      await this.#follow();
      const text = JSON.stringify(this.#gitDir === null ? null : parseGitStatus(await this.#git(GIT_STATUS)));
      if (text !== this.#known && !this.#closed) {
        this.#known = text;
        this.#changed(JSON.parse(text) as GitState | null);
      }
    } catch {
      // A repository in the middle of something, or too slow: what we know is the best there is.
    }
    this.#looking = false;
    this.#lookedAt = Date.now();
    if (this.#again) this.touch();
  }

  /** Watches the git directory, if there is one by now. */
  async #follow(): Promise<void> {
    const gitDir = await this.#git(["rev-parse", "--absolute-git-dir"]).then(
      (output) => output.trimEnd(),
      () => null,
    );
    if (gitDir === this.#gitDir || this.#closed) return;
    this.#unwatch();
    this.#gitDir = gitDir;
    if (gitDir === null) return;
    for (const directory of [gitDir, join(gitDir, "refs", "heads")]) {
      try {
        const watcher = watch(directory, () => this.touch());
        watcher.on("error", () => watcher.close());
        watcher.unref();
        this.#watchers.push(watcher);
      } catch {
        // A work tree of another repository has no refs of its own.
      }
    }
  }

  #unwatch(): void {
    for (const watcher of this.#watchers) watcher.close();
    this.#watchers = [];
  }

  /** A repository's configuration may name programs to run: with our token in their environment they must not. */
  async #git(args: readonly string[]): Promise<string> {
    const { stdout } = await run("git", ["--no-optional-locks", "-c", "core.fsmonitor=false", ...args], {
      cwd: this.#root,
      env: plainEnvironment(process.env),
      timeout: this.#timing.gitTimeoutMs,
      killSignal: "SIGKILL",
      signal: this.#abort.signal,
      maxBuffer: OUTPUT_MAX,
    });
    return stdout;
  }
}
