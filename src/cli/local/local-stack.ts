import { watch } from "node:fs";
import { join } from "node:path";
import { splitCommand } from "../../node/split-command.ts";
import type { GatewayProcessOptions, GatewayReport } from "./gateway-process.ts";
import { Guard, SECRET_FD, Supervised } from "./supervisor.ts";

/** workerd ends immediately. */
const GATEWAY_GRACE_SECONDS = 2;
/** The host gives its agents five seconds, and their last items two more to be acknowledged. */
const HOST_GRACE_SECONDS = 8;
/** The name of the host that `npm start` runs. */
export const LOCAL_HOST = "local";
/** Exit codes of a host that is used in a wrong way, or cannot isolate agents as demanded. */
const HOST_REFUSALS = [2, 9];
/** The directory that contains one directory for each container. */
const CONTAINERS = "containers";

export type LocalHostOptions = {
  url: string;
  token: string;
  workspace: string;
  root: string;
  /** Absent: the demo agent. */
  agent?: string | undefined;
  /** Further arguments for the host. */
  args?: readonly string[];
  /** The host refuses to run, for a reason that it has logged. */
  onRefused?: (exitCode: number) => void;
};

export type OnDemandOptions = Pick<LocalHostOptions, "root" | "agent" | "args"> & { stateDir: string };

/** The processes of `npm start`: the gateway and its host. */
export class LocalStack {
  readonly #projectDir: string;
  readonly #log: (line: string) => void;
  readonly #guard = new Guard();
  #gateway: Supervised | undefined;
  #host: Supervised | undefined;

  constructor(projectDir: string, log: (line: string) => void) {
    this.#projectDir = projectDir;
    this.#log = log;
  }

  /** Rejects if the first start fails, because that is probably the user's mistake. Later failures are retried. */
  startGateway(options: GatewayProcessOptions): Promise<void> {
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    let settled = false;
    const onMessage = (message: unknown) => {
      const report = message as GatewayReport;
      if (report.t === "ready") {
        this.#gateway?.markReady();
        resolve();
      }
      if (report.t === "failed" && settled) this.#log(report.reason);
      else if (report.t === "failed") reject(new Error(report.reason));
      settled = true;
    };
    const args = [this.#source("cli/local/gateway-process.ts")];
    const graceSeconds = GATEWAY_GRACE_SECONDS + (options.onDemand ? HOST_GRACE_SECONDS : 0);
    this.#gateway = new Supervised(
      { name: "gateway", args, graceSeconds, hello: options, onMessage },
      this.#guard,
      this.#log,
    );
    return promise;
  }

  /** Options for a gateway that starts hosts itself. */
  onDemand({ stateDir, root, agent, args = [] }: OnDemandOptions) {
    const own = process.env.ACP_EDGE_CONTAINER_COMMAND;
    return {
      command: own
        ? splitCommand(own)
        : [
            "/bin/sh",
            this.#source("container/entrypoint.sh"),
            process.execPath,
            this.#source("host/main.ts"),
            ...args,
          ],
      root,
      directory: join(stateDir, CONTAINERS),
      env: agent === undefined ? {} : { ACP_EDGE_AGENT_COMMAND: agent },
    };
  }

  startHost({ url, token, workspace, root, agent, args: more = [], onRefused }: LocalHostOptions): void {
    const args = [this.#source("host/main.ts")];
    args.push("--gateway", url, "--workspace", workspace, "--root", root, "--name", LOCAL_HOST, ...more);
    // Ctrl-C ends turns immediately.
    args.push("--drain", "0");
    if (agent !== undefined) args.push("--agent", agent);
    const env = { ACP_EDGE_HOST_TOKEN_FD: String(SECRET_FD), ACP_EDGE_PARENT_PIPE: "1" };
    this.#host = new Supervised(
      {
        name: "host",
        args,
        env,
        secret: token,
        graceSeconds: HOST_GRACE_SECONDS,
        ...(onRefused && { final: { codes: HOST_REFUSALS, onEnd: onRefused } }),
      },
      this.#guard,
      this.#log,
    );
  }

  /** Restarts the host when its sources change. The gateway reloads its bundle by itself. */
  watchHostSources(): void {
    let timer: NodeJS.Timeout | undefined;
    for (const directory of ["host", "node", "demo-agent", "protocol"]) {
      watch(this.#source(directory), { recursive: true }, () => {
        clearTimeout(timer);
        timer = setTimeout(() => this.#host?.restart(), 100);
      });
    }
  }

  /** Stops the host first, so that the gateway can log the last items of its agents. */
  async stop(): Promise<void> {
    await this.#host?.stop();
    await this.#gateway?.stop();
    await this.#guard.close();
  }

  kill(): void {
    this.#guard.killAll();
  }

  #source(path: string): string {
    return join(this.#projectDir, "src", path);
  }
}
