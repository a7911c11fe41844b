/** Runs host processes in place of containers, on behalf of the Worker's ProcessContainer. */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdirSync } from "node:fs";
import { constants } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { LOCAL_WORKSPACE } from "../token-signer.ts";

export type LocalContainersOptions = {
  /** The command of each process, in place of the image's entry point. */
  command: string[];
  /** The directory of the workspace `local`. Other workspaces have a directory below `directory`. */
  root: string;
  directory: string;
  /** The environment that the image would set. */
  env: Record<string, string>;
};

/** The longest wait of one request, so that no connection stays idle for hours. */
const WAIT_MS = 20_000;
const CLOSE_MS = 7_000;

type Ended = { code: number };

export class LocalContainers {
  readonly #options: LocalContainersOptions;
  /** The last process of each container. An ended process stays, because its exit code may be requested later. */
  readonly #processes = new Map<string, { child: ChildProcess; ended: Promise<Ended> }>();

  constructor(options: LocalContainersOptions) {
    this.#options = options;
  }

  /** The service that the Worker is bound to: /start, /wait and /signal of the container `id`. */
  readonly fetch = async (request: { url: string; text(): Promise<string> }): Promise<Response> => {
    const { pathname, searchParams } = new URL(request.url);
    const id = searchParams.get("id") ?? "";
    try {
      if (pathname === "/start")
        await this.#start(id, JSON.parse(await request.text()) as Record<string, string>);
      if (pathname === "/signal")
        this.#processes.get(id)?.child.kill(Number(searchParams.get("signal")) as never);
      return Response.json(pathname === "/wait" ? await this.#wait(id) : {});
    } catch (error) {
      return Response.json({ error: error instanceof Error ? error.message : String(error) });
    }
  };

  /** Kills all processes, because the Worker that started them has lost its memory of them. */
  killAll(): void {
    for (const { child } of this.#processes.values()) child.kill("SIGKILL");
  }

  /** Ends all processes by closing their stdin. */
  async close(): Promise<void> {
    const all = [...this.#processes.values()];
    for (const { child } of all) child.stdin?.end();
    await Promise.race([
      Promise.all(all.map(({ ended }) => ended)),
      sleep(CLOSE_MS, undefined, { ref: false }),
    ]);
  }

  async #start(id: string, env: Record<string, string>): Promise<void> {
    const { command, root, directory, env: image } = this.#options;
    const workspace = env.ACP_EDGE_WORKSPACE ?? "";
    const disk = workspace === LOCAL_WORKSPACE ? root : join(directory, encodeURIComponent(workspace));
    mkdirSync(disk, { recursive: true });
    const child = spawn(command[0] as string, command.slice(1), {
      env: { ...process.env, ...image, ...env, ACP_EDGE_ROOT: disk, ACP_EDGE_PARENT_PIPE: "1" },
      stdio: ["pipe", "inherit", "inherit"],
    });
    const ended = new Promise<Ended>((resolve) => {
      child.once("exit", (code, signal) =>
        resolve({ code: code ?? 128 + constants.signals[signal ?? "SIGKILL"] }),
      );
      child.once("error", () => resolve({ code: 127 }));
    });
    child.stdin.on("error", () => {});
    this.#processes.set(id, { child, ended });
    await once(child, "spawn");
  }

  async #wait(id: string): Promise<Ended | { running: true }> {
    const ended = this.#processes.get(id)?.ended ?? { code: 0 };
    return Promise.race([ended, sleep(WAIT_MS, { running: true } as const, { ref: false })]);
  }
}
