/** Processes in place of containers: what the Worker's ProcessContainer asks for, done by this Node. */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdirSync } from "node:fs";
import { constants } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { LOCAL_WORKSPACE } from "../token-signer.ts";

export type LocalContainersOptions = {
  /** What runs in each, as the image's entry would. */
  command: string[];
  /** The directory of the workspace `local`; others have one of their own below `directory`. */
  root: string;
  directory: string;
  /** As the image would set it. */
  env: Record<string, string>;
};

/** An answer is never owed for longer than this, so that no connection rests for hours. */
const WAIT_MS = 20_000;
const CLOSE_MS = 7_000;

type Ended = { code: number };

export class LocalContainers {
  readonly #options: LocalContainersOptions;
  /** The last one of each; one that has ended stays, because how it ended may be asked for later. */
  readonly #processes = new Map<string, { child: ChildProcess; ended: Promise<Ended> }>();

  constructor(options: LocalContainersOptions) {
    this.#options = options;
  }

  /** The service the Worker is bound to: /start, /wait and /signal of the container `id`. */
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

  /** Whoever asked for them has forgotten that: as if their machine were gone. */
  killAll(): void {
    for (const { child } of this.#processes.values()) child.kill("SIGKILL");
  }

  /** Ends them all: their hosts do so when their stdin ends. */
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
