import { execFile } from "node:child_process";
import { type FSWatcher, watch } from "node:fs";
import { join } from "node:path";
import { promisify } from "node:util";
import type { Timing } from "../../node/timing.ts";
import type { GitState } from "../../protocol/host-wire.ts";
import { Isolation } from "../isolation/isolation.ts";
import { GIT_STATUS, parseGitStatus } from "./git-status.ts";
import { plainEnvironment } from "./plain-environment.ts";

const run = promisify(execFile);
const OUTPUT_BYTES_MAX = 64 * 1024 * 1024;

/**
 * Follows the git state of the workspace. The git directory is watched, the work tree is not: it may be huge, and
 * changes to it during a turn come from the agent, whose activity the host reports here. `git status` runs only after
 * a sign of change, never twice at a time, and only a new state is reported.
 */
export class GitWatch {
  readonly #root: string;
  readonly #isolation: Isolation;
  readonly #timing: Timing;
  readonly #onChange: (git: GitState | null) => void;
  /** The last state as JSON; undefined until the first check. */
  #known: string | undefined;
  #watchers: FSWatcher[] = [];
  #gitDir: string | null = null;
  #timer: NodeJS.Timeout | undefined;
  #poll: NodeJS.Timeout | undefined;
  #checking = false;
  /** A sign of change arrived during the current check. */
  #touched = false;
  #checkedAt = 0;
  #idle: Promise<void> = Promise.resolve();
  readonly #abort = new AbortController();
  #closed = false;

  /** `onChange` gets null if the workspace is not a git repository. */
  constructor(
    root: string,
    timing: Timing,
    onChange: (git: GitState | null) => void,
    isolation = Isolation.none(root),
  ) {
    this.#root = root;
    this.#isolation = isolation;
    this.#timing = timing;
    this.#onChange = onChange;
    this.#idle = this.#check();
  }

  /** Undefined until the first check has ended. */
  get state(): GitState | null | undefined {
    return this.#known === undefined ? undefined : (JSON.parse(this.#known) as GitState | null);
  }

  /** Schedules a check, because files may have changed. It is cheap: every output of an agent calls it. */
  touch(): void {
    if (this.#checking) this.#touched = true;
    if (this.#checking || this.#timer || this.#closed) return;
    const untilNextMs = this.#checkedAt + this.#timing.gitEveryMs - Date.now();
    const check = () => {
      this.#idle = this.#check();
    };
    this.#timer = setTimeout(check, Math.max(this.#timing.gitDelayMs, untilNextMs));
    this.#timer.unref();
  }

  /** While agents run, a periodic check finds changes that leave no sign. */
  set busy(busy: boolean) {
    clearInterval(this.#poll);
    this.#poll = busy ? setInterval(() => this.touch(), this.#timing.gitPollMs).unref() : undefined;
  }

  /** Resolves when the current check has ended. */
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

  async #check(): Promise<void> {
    this.#timer = undefined;
    this.#checking = true;
    this.#touched = false;
    try {
      await this.#follow();
      const text = JSON.stringify(this.#gitDir === null ? null : parseGitStatus(await this.#git(GIT_STATUS)));
      if (text !== this.#known && !this.#closed) {
        this.#known = text;
        this.#onChange(JSON.parse(text) as GitState | null);
      }
    } catch {
      // Git failed or was too slow, so the previous state stays.
    }
    this.#checking = false;
    this.#checkedAt = Date.now();
    if (this.#touched) this.touch();
  }

  /** Watches the git directory as soon as there is one. */
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
        // A linked work tree has no refs of its own.
      }
    }
  }

  #unwatch(): void {
    for (const watcher of this.#watchers) watcher.close();
    this.#watchers = [];
  }

  /** A repository's configuration may name programs to run, and agents write it. Git therefore runs as agents do. */
  async #git(args: readonly string[]): Promise<string> {
    const git = ["git", "--no-optional-locks", "-c", "core.fsmonitor=false", ...args];
    const [file, ...words] = this.#isolation.command(git);
    const { stdout } = await run(file, words, {
      cwd: this.#root,
      env: plainEnvironment(this.#isolation.environment(process.env)),
      timeout: this.#timing.gitTimeoutMs,
      killSignal: "SIGKILL",
      signal: this.#abort.signal,
      maxBuffer: OUTPUT_BYTES_MAX,
    });
    return stdout;
  }
}
