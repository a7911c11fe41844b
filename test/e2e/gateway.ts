/** Starts the whole system as a user does, with real processes, and ends it again. */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { descendants, type ProcessEntry, processTable } from "../../src/cli/local/process-tree.ts";
import type { ReadyInfo } from "../../src/cli/local/startup-banner.ts";
import { CLIENT_CLAIMS, HOST_CLAIMS, loadSigner } from "../../src/cli/token-signer.ts";

const PROJECT = fileURLToPath(new URL("../../", import.meta.url));
const START = fileURLToPath(new URL("../../src/cli/local/start.ts", import.meta.url));
const HOST = fileURLToPath(new URL("../../src/host/main.ts", import.meta.url));
const READY_MS = 40_000;

export type StartOptions = {
  /** The state directory: kept if given, otherwise temporary. */
  state?: string;
  root?: string;
  /** The port; 0, the default, is a free one. */
  port?: number;
  agent?: string;
  /** Further arguments of the runner. */
  args?: string[];
  env?: Record<string, string>;
  /** Starts through `npm start`, which puts its own processes in between. */
  npm?: boolean;
};

export type Exit = { code: number | null; signal: NodeJS.Signals | null };

export type Gateway = ReadyInfo &
  AsyncDisposable & {
    state: string;
    root: string;
    /** The log of the runner and its children so far. */
    log(): string;
    /** A request with the client token. */
    api(path: string, init?: RequestInit): Promise<Response>;
    /** The pids of all living processes below the runner. */
    processes(): ProcessEntry[];
    /** Resolves to the killed pid. */
    killWorkerd(): number;
    /** Resolves to the killed pid. */
    killHost(): number;
    exited: Promise<Exit>;
    /** Stops the runner as Ctrl-C does; resolves when it is gone, at once if it already is. */
    stop(signal?: NodeJS.Signals): Promise<Exit>;
  };

/** Runs the runner with any arguments, for tests that expect it to end by itself. */
export async function runStart(
  args: string[],
  env: Record<string, string> = {},
): Promise<Exit & { stdout: string; stderr: string }> {
  const child = spawnRunner(args, { env });
  const [stdout, stderr] = [collect(child.stdout), collect(child.stderr)];
  const exit = await exitOf(child);
  return { ...exit, stdout: stdout(), stderr: stderr() };
}

export async function startGateway(options: StartOptions = {}): Promise<Gateway> {
  const temporary: string[] = [];
  const makeDir = (name: string) => {
    const directory = mkdtempSync(join(tmpdir(), `acp-edge-${name}-`));
    temporary.push(directory);
    return directory;
  };
  const state = options.state ?? makeDir("state");
  const root = options.root ?? makeDir("root");
  const args = ["--json", "--port", String(options.port ?? 0), "--state", state, "--root", root];
  if (options.agent !== undefined) args.push("--agent", options.agent);
  args.push(...(options.args ?? []));

  const child = spawnRunner(args, options);
  const log = collect(child.stderr);
  const exited = exitOf(child);
  const info = await firstLine(child, exited, log);

  const processes = () => descendants(child.pid as number);
  const stop = async (signal: NodeJS.Signals = "SIGTERM") => {
    child.kill(signal);
    return exited;
  };
  const kill = (what: string) => {
    const found = processes().find(({ command }) => command.includes(what));
    if (!found) throw new Error(`${what} is not running`);
    process.kill(found.pid, "SIGKILL");
    return found.pid;
  };
  return {
    ...info,
    state,
    root,
    log,
    api: (path, init) =>
      fetch(`${info.url}${path}`, {
        ...init,
        headers: { authorization: `Bearer ${info.token}`, ...init?.headers },
      }),
    processes,
    killWorkerd: () => kill("workerd serve"),
    killHost: () => kill("src/host/main.ts"),
    exited,
    stop,
    [Symbol.asyncDispose]: async () => {
      await stop();
      for (const directory of temporary) rmSync(directory, { recursive: true, force: true });
    },
  };
}

export type HostProcess = {
  name: string;
  exited: Promise<Exit>;
  log(): string;
  kill(signal: NodeJS.Signals): void;
};

export type HostStart = {
  name: string;
  workspace: string;
  token: string;
  root: string;
  /** The address to dial instead of the gateway's own. */
  url?: string;
  args?: string[];
  env?: Record<string, string>;
};

/** Starts another host as a process of its own. The caller has to stop it. */
export function startHost(
  gateway: Gateway,
  { name, workspace, token, root, url, args = [], env }: HostStart,
): HostProcess {
  const options = ["--gateway", url ?? gateway.url, "--workspace", workspace, "--root", root, "--name", name];
  const child = spawn(process.execPath, [HOST, ...options, ...args], {
    env: {
      ...process.env,
      ACP_EDGE_HOST_TOKEN: token,
      ACP_EDGE_HOST_STATE: join(gateway.state, "hosts"),
      ...env,
    },
    stdio: ["ignore", "ignore", "pipe"],
  });
  const log = collect(child.stderr);
  return { name, log, exited: exitOf(child), kill: (signal) => void child.kill(signal) };
}

/** A new workspace on a running gateway: the gateway with tokens for clients and hosts of that workspace. */
export async function withWorkspace(gateway: Gateway, workspace: string): Promise<Gateway> {
  const signer = await loadSigner(gateway.state);
  const token = await signer.sign({ ...CLIENT_CLAIMS, workspaces: [workspace] }, "1 hour");
  const hostToken = await signer.sign({ ...HOST_CLAIMS, workspaces: [workspace] }, "1 hour");
  const api: Gateway["api"] = (path, init) =>
    gateway.api(path, { ...init, headers: { authorization: `Bearer ${token}`, ...init?.headers } });
  return { ...gateway, token, hostToken, workspace, api };
}

/** Polls until the check holds; an exception counts as not yet. */
export async function eventually(check: () => boolean | Promise<boolean>, withinMs = 15_000): Promise<void> {
  const deadline = Date.now() + withinMs;
  for (;;) {
    if (await (async () => check())().catch(() => false)) return;
    if (Date.now() > deadline) throw new Error(`not within ${withinMs} ms: ${check}`);
    await sleep(50);
  }
}

/** The pids that still run; a zombie does not. */
export function alive(pids: number[]): number[] {
  const running = new Set(processTable().map(({ pid }) => pid));
  return pids.filter((pid) => running.has(pid));
}

function spawnRunner(args: string[], { env, npm = false }: Pick<StartOptions, "env" | "npm"> = {}) {
  const [command, ...first] = npm ? ["npm", "start", "--silent", "--"] : [process.execPath, START];
  return spawn(command as string, [...first, ...args], {
    cwd: npm ? PROJECT : undefined,
    env: { ...process.env, ...env },
    stdio: ["ignore", "pipe", "pipe"],
  });
}

async function exitOf(child: ChildProcess): Promise<Exit> {
  const [code, signal] = (await once(child, "close")) as [Exit["code"], Exit["signal"]];
  return { code, signal };
}

function collect(stream: NodeJS.ReadableStream): () => string {
  let text = "";
  stream.setEncoding("utf8").on("data", (chunk: string) => {
    text += chunk;
  });
  return () => text;
}

async function firstLine(
  child: ReturnType<typeof spawnRunner>,
  exited: Promise<Exit>,
  log: () => string,
): Promise<ReadyInfo> {
  const line = once(createInterface({ input: child.stdout }), "line");
  const ended = exited.then(({ code }) => `ended with code ${code}`);
  const outcome = await Promise.race([line, ended, sleep(READY_MS, "is not ready", { ref: false })]);
  if (typeof outcome !== "string") return JSON.parse(String(outcome[0])) as ReadyInfo;
  child.kill("SIGTERM");
  await exited;
  throw new Error(`The runner ${outcome}:\n${log()}`);
}
