import { type ChildProcess, type ChildProcessWithoutNullStreams, execFile, spawn } from "node:child_process";
import { constants } from "node:os";
import { promisify } from "node:util";
import type { ProcessGroup } from "../os/process-group.ts";
import { PROCESS_MARK } from "../os/process-mark.ts";
import { type AgentUser, environmentOf } from "./agent-user.ts";
import { findProgram } from "./find-program.ts";
import { HiddenPaths } from "./hidden-paths.ts";
import { shellWord } from "./shell-word.ts";

type Variables = Readonly<Record<string, string>>;

export type SpawnOptions = {
  cwd: string;
  env: Variables;
  /** The process reads from a pipe; otherwise from nothing. */
  hasInput: boolean;
};

/**
 * Builds the words that precede a command: the command runs as the user and in the namespace. A namespace ends with the
 * host and with its first process. Throws if something that must be hidden is not where it was.
 */
export type Wrapper = () => readonly string[];

/** Any namespace hides the host's processes; each process that the host starts has one of its own. */
export type NamespaceKind = "bwrap" | "unshare";

export type IsolationParts = {
  user?: AgentUser | undefined;
  namespace?: NamespaceKind | undefined;
  hidden: HiddenPaths;
  wrapper: Wrapper;
};

const VARIABLE = /^[A-Za-z_][A-Za-z0-9_]*$/;
const SCRIPT_FD = 3;

/**
 * The programs around the command run before the isolation holds, so they must not see a variable that an agent chose:
 * the system would load a library by its name. A shell inside the isolation therefore sets the variables.
 */
const SET_VARIABLES = `eval "$(cat <&${SCRIPT_FD})"; exec ${SCRIPT_FD}<&-; exec "$@"`;

const SEARCH_TIMEOUT_MS = 10_000;
const SEARCH = `
const fs = require("node:fs");
const has = (pid) => {
  try { return fs.readFileSync("/proc/" + pid + "/environ", "latin1").split("\\0").includes(process.argv[1]); }
  catch { return false; }
};
process.stdout.write(fs.readdirSync("/proc").filter((name) => /^[0-9]+$/.test(name) && has(name)).join(" "));
`;

/** Starts processes that cannot read the host's token and state, nor the environment of other processes. */
export class Isolation {
  readonly user: AgentUser | undefined;
  readonly namespace: NamespaceKind | undefined;
  readonly hidden: HiddenPaths;
  readonly #wrapper: Wrapper;

  constructor({ user, namespace, hidden, wrapper }: IsolationParts) {
    this.user = user;
    this.namespace = namespace;
    this.hidden = hidden;
    this.#wrapper = wrapper;
  }

  /** Processes run as the host's user and see whatever the user sees. Files for agents are still refused by path. */
  static none(root: string, hidden = new HiddenPaths(root)): Isolation {
    return new Isolation({ hidden, wrapper: () => [] });
  }

  /** For people and for the gateway: `none`, `user`, `bwrap`, `unshare`, `user+bwrap` or `user+unshare`. */
  get name(): string {
    return [this.user && "user", this.namespace].filter(Boolean).join("+") || "none";
  }

  /** The host's environment, as far as it describes the user that agents run as. */
  environment(env: NodeJS.ProcessEnv): NodeJS.ProcessEnv {
    return environmentOf(this.user, env);
  }

  /** A command of the host's own, whose environment no agent chose. */
  command(words: readonly string[]): [file: string, ...args: string[]] {
    const [file = "", ...args] = [...this.#wrapper(), ...words];
    return [file, ...args];
  }

  /** Throws if the program is missing; where nothing isolates, the process reports that by an event. */
  spawn(words: readonly string[], { cwd, env, hasInput }: SpawnOptions): ChildProcess {
    const wrapper = this.#wrapper();
    const input = hasInput ? "pipe" : "ignore";
    if (wrapper.length === 0) {
      const [file = "", ...args] = words;
      return spawn(file, args, { cwd, env, detached: true, stdio: [input, "pipe", "pipe"] });
    }
    // A missing program is an error, as without isolation, rather than the exit of a shell.
    const [program = ""] = words;
    if (findProgram(program, env.PATH, cwd) === undefined) throw new Error(`${program} is not installed`);
    const [file = "", ...args] = [...wrapper, "/bin/sh", "-c", SET_VARIABLES, "sh", ...words];
    const child = spawn(file, args, {
      cwd,
      env: { PATH: process.env.PATH },
      detached: true,
      stdio: [input, "pipe", "pipe", "pipe"],
    });
    const script = child.stdio[SCRIPT_FD];
    if (script && "end" in script) {
      // The exit of the process reports its end.
      script.on("error", () => {});
      script.end(exports(env));
    }
    return child;
  }

  /** The processes of a command, and how to find those that have left its group. */
  group(leader: number, mark: string): ProcessGroup {
    // Nothing leaves a namespace.
    if (this.namespace !== undefined) return { leader, isWatched: true };
    return this.user === undefined
      ? { leader, mark }
      : { leader, mark, search: (text) => this.#search(text) };
  }

  /** Root may lack the right to read the environment of other users, but they read their own. */
  async #search(mark: string): Promise<number[]> {
    const [file, ...args] = this.command([process.execPath, "-e", SEARCH, `${PROCESS_MARK}=${mark}`]);
    const env = { PATH: process.env.PATH };
    const { stdout } = await promisify(execFile)(file, args, { env, timeout: SEARCH_TIMEOUT_MS }).catch(
      () => ({
        stdout: "",
      }),
    );
    return stdout.split(" ").filter(Boolean).map(Number);
  }

  /** The first process of a namespace reports a signal as a shell does. */
  exitOf(code: number | null, signal: string | null): { exitCode: number | null; signal: string | null } {
    if (!this.namespace || code === null || code <= 128) return { exitCode: code, signal };
    const name = Object.entries(constants.signals).find(([, number]) => number === code - 128)?.[0];
    return name === undefined ? { exitCode: code, signal } : { exitCode: null, signal: name };
  }
}

export function hasPipes(child: ChildProcess): child is ChildProcessWithoutNullStreams {
  return child.stdin !== null && child.stdout !== null && child.stderr !== null;
}

/** A shell cannot set variables whose names are no identifiers; programs that are meant for any system use none. */
function exports(env: Variables): string {
  return Object.entries(env)
    .filter(([name]) => VARIABLE.test(name))
    .map(([name, value]) => `export ${name}=${shellWord(value)}\n`)
    .join("");
}
