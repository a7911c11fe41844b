/** Runs host processes in place of containers, on behalf of the Worker's ProcessContainer. */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { mkdirSync } from "node:fs";
import { constants } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { z } from "zod";
import { withoutTokens } from "../../node/token-variables.ts";
import { LOOPBACK_SECRET } from "../../protocol/loopback-secret.ts";
import { LOCAL_WORKSPACE } from "../token-signer.ts";
import { isSecret } from "./loopback-guard.ts";

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

type Call = { url: string; headers: { get(name: string): string | null }; text(): Promise<string> };

/** The variables of a host that the workspace decides. Any other could make the process run the caller's code. */
const orderedEnvironment = z.strictObject({
  ACP_EDGE_GATEWAY: z.string(),
  // The name becomes that of a directory.
  ACP_EDGE_WORKSPACE: z.string().regex(/^(?!\.{0,2}$)/),
  ACP_EDGE_NAME: z.string(),
  ACP_EDGE_HOST_TOKEN: z.string(),
  ACP_EDGE_DRAIN: z.string(),
  ACP_EDGE_AGENTS: z.string().optional(),
  GIT_URL: z.string().optional(),
  GIT_REF: z.string().optional(),
  GIT_USERNAME: z.string().optional(),
  GIT_TOKEN: z.string().optional(),
});

type OrderedEnvironment = z.infer<typeof orderedEnvironment>;

export class LocalContainers {
  readonly #options: LocalContainersOptions;
  readonly #secret: string;
  /** The last process of each container. An ended process stays, because its exit code may be requested later. */
  readonly #processes = new Map<string, { child: ChildProcess; ended: Promise<Ended> }>();

  /** Requests without the secret are not from the Worker. */
  constructor(options: LocalContainersOptions, secret: string) {
    this.#options = options;
    this.#secret = secret;
  }

  /** The service that the Worker is bound to: /start, /state, /wait and /signal of the container `id`. */
  readonly fetch = async (request: Call): Promise<Response> => {
    if (!isSecret(request.headers.get(LOOPBACK_SECRET), this.#secret))
      return new Response(null, { status: 403 });
    const { pathname, searchParams } = new URL(request.url);
    const id = searchParams.get("id") ?? "";
    try {
      if (pathname === "/start")
        await this.#start(id, orderedEnvironment.parse(JSON.parse(await request.text())));
      if (pathname === "/signal")
        this.#processes.get(id)?.child.kill(Number(searchParams.get("signal")) as never);
      if (pathname === "/state") return Response.json({ running: this.#isRunning(id) });
      return Response.json(pathname === "/wait" ? await this.#wait(id) : {});
    } catch (error) {
      return Response.json({ error: error instanceof Error ? error.message : String(error) });
    }
  };

  /** Ends all processes by closing their stdin. */
  async close(): Promise<void> {
    const all = [...this.#processes.values()];
    for (const { child } of all) child.stdin?.end();
    await Promise.race([
      Promise.all(all.map(({ ended }) => ended)),
      sleep(CLOSE_MS, undefined, { ref: false }),
    ]);
  }

  #isRunning(id: string): boolean {
    const child = this.#processes.get(id)?.child;
    return child?.pid !== undefined && child.exitCode === null && child.signalCode === null;
  }

  async #start(id: string, env: OrderedEnvironment): Promise<void> {
    // A container has one process. The answer to an earlier order may have been lost with the Worker.
    if (this.#isRunning(id)) return;
    const { command, root, directory, env: image } = this.#options;
    const workspace = env.ACP_EDGE_WORKSPACE;
    const disk = workspace === LOCAL_WORKSPACE ? root : join(directory, encodeURIComponent(workspace));
    mkdirSync(disk, { recursive: true });
    const child = spawn(command[0] as string, command.slice(1), {
      env: {
        ...withoutTokens(process.env),
        ...image,
        ...env,
        ACP_EDGE_ROOT: disk,
        ACP_EDGE_PARENT_PIPE: "1",
      },
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
