import { watch } from "node:fs";
import { join } from "node:path";
import { splitCommand } from "../../host/split-command.ts";
import type { GatewayProcessOptions, GatewayReport } from "./gateway-process.ts";
import { Guard, Supervised } from "./supervisor.ts";

/** Seconds. Ending workerd takes no time. */
const GATEWAY_GRACE = 2;
/** Seconds. The host gives its agents five, and their last words two more to be acknowledged. */
const HOST_GRACE = 8;
/** Where a host is run in place of a container: a directory each. */
const CONTAINERS = "containers";

export type LocalHostOptions = {
  url: string;
  token: string;
  workspace: string;
  root: string;
  /** Absent: the demo agent. */
  agent?: string | undefined;
  /** More arguments for it. */
  args?: readonly string[];
};

export type OnDemandOptions = Pick<LocalHostOptions, "root" | "agent" | "args"> & { stateDir: string };

/** The processes of one run: the gateway and its host. */
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

  /** Rejects if the first start fails: a mistake is the user's to know. Later failures are retried. */
  startGateway(options: GatewayProcessOptions): Promise<void> {
    const { promise, resolve, reject } = Promise.withResolvers<void>();
    let settled = false;
    const onMessage = (message: unknown) => {
      const report = message as GatewayReport;
      if (report.t === "ready") resolve();
      else if (settled) this.#log(report.reason);
      else reject(new Error(report.reason));
      settled = true;
    };
    const args = [this.#source("cli/local/gateway-process.ts")];
    const graceSeconds = options.onDemand ? HOST_GRACE + GATEWAY_GRACE : GATEWAY_GRACE;
    this.#gateway = new Supervised(
      { name: "gateway", args, graceSeconds, hello: options, onMessage },
      this.#guard,
      this.#log,
    );
    return promise;
  }

  /** How the gateway starts hosts itself. */
  onDemand({ stateDir, root, agent, args = [] }: OnDemandOptions) {
    const own = process.env.ACP_EDGE_CONTAINER_COMMAND;
    return {
      command: own ? splitCommand(own) : [process.execPath, this.#source("host/main.ts"), ...args],
      root,
      directory: join(stateDir, CONTAINERS),
      env: agent === undefined ? {} : { ACP_EDGE_AGENT: agent },
    };
  }

  startHost({ url, token, workspace, root, agent, args: more = [] }: LocalHostOptions): void {
    const args = [this.#source("host/main.ts")];
    args.push("--gateway", url, "--workspace", workspace, "--root", root, "--name", "local", ...more);
    // Ctrl-C means now.
    args.push("--drain", "0");
    if (agent !== undefined) args.push("--agent", agent);
    const env = { ACP_EDGE_HOST_TOKEN: token, ACP_EDGE_PARENT_PIPE: "1" };
    this.#host = new Supervised(
      { name: "host", args, env, graceSeconds: HOST_GRACE },
      this.#guard,
      this.#log,
    );
  }

  /** The gateway reloads its bundle by itself; the host is started anew. */
  watchHostSources(): void {
    let timer: NodeJS.Timeout | undefined;
    for (const directory of ["host", "node", "demo-agent", "protocol"]) {
      watch(this.#source(directory), { recursive: true }, () => {
        clearTimeout(timer);
        timer = setTimeout(() => this.#host?.restart(), 100);
      });
    }
  }

  /** The host first: what its agents still have to say is for the gateway's log. */
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
