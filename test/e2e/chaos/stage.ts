/** The whole system under attack: a local gateway, hosts that are started again whenever they end, and bad networks. */
import { mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { fileURLToPath } from "node:url";
import { processTable } from "../../../src/cli/local/process-tree.ts";
import { BadNetwork } from "../bad-network.ts";
import { type Gateway, type HostProcess, startGateway, startHost, withWorkspace } from "../gateway.ts";

const AGENT = fileURLToPath(new URL("agent.ts", import.meta.url));
const WORKSPACE = "chaos";

const LIMITS = {
  ...{ hostSilentMs: 5_000, probeMs: 1_000, hostStatusRetryMs: 500 },
  ...{ keepAliveMs: 1_000, readerProbeMs: 300, resumeSilentMs: 10_000 },
  ...{ crashLimit: 1_000_000, crashBackoffMs: 1 },
  ...{ webhookRetryMs: 200, webhookMessageRetryMs: 500 },
  ...{ promptsPerHour: 1e9, charsPerHour: 1e12, socketsPerSubject: 100_000 },
};
const TIMING = {
  ...{ pingEveryMs: 1_000, pongWithinMs: 1_500, dialMs: 2_000, retryMinMs: 50, retryMaxMs: 500 },
  ...{ killAfterMs: 1_000 },
};

export type StagedHost = {
  name: string;
  network: BadNetwork;
  /** How often the host has been started. Agents carry the name with this number in their journals. */
  starts: number;
  /** The last start that was told to drain. */
  drained: number;
  process: HostProcess;
};

export type StageOptions = {
  hosts: readonly string[];
  settings: { sharedFiles: boolean; hostGraceMs: number };
};

export class Stage implements AsyncDisposable {
  readonly directory = mkdtempSync(join(tmpdir(), "acp-edge-chaos-"));
  readonly journals = join(this.directory, "journals");
  readonly root = join(this.directory, "files");
  readonly state = join(this.directory, "state");
  readonly hosts = new Map<string, StagedHost>();
  readonly networks = new Map<string, BadNetwork>();
  /** Starts of hosts, as `name.number`, that were killed: their agents die without a word. */
  readonly killedHosts = new Set<string>();
  /** Starts of hosts that were away for about the grace period or longer: their sessions may have gone elsewhere. */
  readonly lostHosts = new Set<string>();
  readonly killedAgents = new Set<number>();
  readonly graceMs: number;
  gateway!: Gateway;
  #workspace!: Gateway;
  #isClosing = false;

  private constructor(graceMs: number) {
    this.graceMs = graceMs;
  }

  static async build({ hosts, settings }: StageOptions): Promise<Stage> {
    const stage = new Stage(settings.hostGraceMs);
    for (const directory of [stage.journals, stage.root, stage.state]) mkdirSync(directory);
    stage.gateway = await stage.#start(0);
    stage.#workspace = await withWorkspace(stage.gateway, WORKSPACE);
    const response = await stage.api(`/api/workspaces/${WORKSPACE}`, {
      method: "PUT",
      headers: { "content-type": "application/json" },
      body: JSON.stringify(settings),
    });
    if (!response.ok) throw new Error(`HTTP ${response.status} ${await response.text()}`);
    for (const name of hosts) await stage.#addHost(name);
    return stage;
  }

  get token(): string {
    return this.#workspace.token;
  }

  get workspace(): string {
    return WORKSPACE;
  }

  get url(): string {
    return this.gateway.url;
  }

  /** Children that outlive their parents are found by this variable, and agents by the directory in their command. */
  get env(): Record<string, string> {
    return { ACP_EDGE_CHAOS: this.directory };
  }

  /** A request that no fault of a network disturbs. */
  api(path: string, init?: RequestInit): Promise<Response> {
    return this.#workspace.api(path, init);
  }

  get asGateway(): Gateway {
    return this.#workspace;
  }

  /** An own way to the gateway. */
  async network(name: string): Promise<BadNetwork> {
    const network = await BadNetwork.to(this.gateway.url);
    this.networks.set(name, network);
    return network;
  }

  // ---- processes --------------------------------------------------------------------------------------

  workerd(): number | undefined {
    return this.#processOf("workerd serve");
  }

  gatewayProcess(): number | undefined {
    return this.#processOf("gateway-process.ts");
  }

  agents(): number[] {
    return processTable().flatMap(({ pid, command }) => (command.startsWith(this.#agent) ? [pid] : []));
  }

  /** Everything of this stage that still runs. Other processes may mention its directories in their arguments. */
  survivors(): { pid: number; command: string }[] {
    const mark = `ACP_EDGE_CHAOS=${this.directory}`;
    return processTable().filter(
      ({ pid, command }) => command.startsWith(this.#agent) || environmentOf(pid).split("\0").includes(mark),
    );
  }

  /** The beginning of the command of every agent. */
  get #agent(): string {
    return `${process.execPath} ${AGENT} ${this.journals} `;
  }

  #processOf(command: string): number | undefined {
    return this.gateway.processes().find((one) => one.command.includes(command))?.pid;
  }

  /** Kills the runner. Its guard ends the rest; then another runner takes over state and port. */
  async replaceRunner(): Promise<void> {
    await this.gateway.stop("SIGKILL");
    const port = Number(new URL(this.gateway.url).port);
    while (!this.#isClosing) {
      try {
        this.gateway = await this.#start(port);
        return;
      } catch {
        // The processes of the killed runner still hold the port.
        await sleep(200);
      }
    }
  }

  /** Stops and starts the gateway in good order, and does something in between. */
  async restart(between: () => void): Promise<void> {
    await this.gateway.stop();
    between();
    this.gateway = await this.#start(Number(new URL(this.gateway.url).port));
  }

  /** Each start of a host is told once: a second signal would end its turns. */
  drainHost(name: string): void {
    const host = this.hosts.get(name);
    if (!host || host.drained === host.starts) return;
    host.drained = host.starts;
    host.process.kill("SIGTERM");
  }

  killHost(name: string): void {
    const host = this.hosts.get(name);
    if (!host) return;
    this.killedHosts.add(`${name}.${host.starts}`);
    host.process.kill("SIGKILL");
  }

  killAgent(pid: number): void {
    this.killedAgents.add(pid);
    signal(pid, "SIGKILL");
  }

  /** The SQLite files of all sessions. */
  sessionFiles(): string[] {
    const directory = join(this.state, "workerd");
    return readdirSync(directory, { recursive: true, encoding: "utf8" })
      .filter((name) => /AcpSession\/[0-9a-f]{64}\.sqlite$/.test(name))
      .map((name) => join(directory, name));
  }

  /** Ends every fault and waits for all hosts. */
  async heal(): Promise<void> {
    for (const network of this.networks.values()) {
      network.release();
      network.refuse(false);
      network.delay(0);
    }
    for (const { process } of this.hosts.values()) process.kill("SIGCONT");
    for (const { pid } of this.survivors()) signal(pid, "SIGCONT");
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.stop();
    for (const { pid } of this.survivors()) signal(pid, "SIGKILL");
    rmSync(this.directory, { recursive: true, force: true });
  }

  /** Ends all processes in good order. */
  async stop(): Promise<void> {
    await this.stopHosts();
    await this.gateway?.stop();
    for (const network of this.networks.values()) await network[Symbol.asyncDispose]();
  }

  /** Ends the hosts for good. */
  async stopHosts(): Promise<void> {
    this.#isClosing = true;
    await Promise.all(
      [...this.hosts.values()].map(({ process }) => {
        process.kill("SIGTERM");
        // A second signal ends the turns at once.
        process.kill("SIGTERM");
        return process.exited;
      }),
    );
  }

  #start(port: number): Promise<Gateway> {
    return startGateway({
      state: this.state,
      root: this.root,
      port,
      args: ["--isolation", "none"],
      env: { ...this.env, ACP_EDGE_LIMITS: JSON.stringify(LIMITS) },
    });
  }

  async #addHost(name: string): Promise<void> {
    const network = await this.network(`host ${name}`);
    const host: StagedHost = {
      name,
      network,
      starts: 1,
      drained: 0,
      process: this.#startHost(name, network, 1),
    };
    this.hosts.set(name, host);
    void this.#keep(host);
  }

  async #keep(host: StagedHost): Promise<void> {
    for (;;) {
      await host.process.exited;
      if (this.#isClosing) return;
      host.starts += 1;
      host.process = this.#startHost(host.name, host.network, host.starts);
    }
  }

  #startHost(name: string, network: BadNetwork, starts: number): HostProcess {
    const agent = `${this.#agent}${name}.${starts}`;
    return startHost(this.#workspace, {
      ...{ name, workspace: WORKSPACE, token: this.#workspace.hostToken, root: this.root },
      url: network.url(this.gateway.url),
      args: ["--agent", agent, "--isolation", "none", "--drain", "60"],
      env: { ...this.env, ACP_EDGE_TIMING: JSON.stringify(TIMING) },
    });
  }
}

/** False if there is no such process any more. */
export function signal(pid: number, name: NodeJS.Signals): boolean {
  try {
    return process.kill(pid, name);
  } catch {
    return false;
  }
}

function environmentOf(pid: number): string {
  try {
    return readFileSync(`/proc/${pid}/environ`, "utf8");
  } catch {
    return "";
  }
}
