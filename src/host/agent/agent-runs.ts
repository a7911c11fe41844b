import type { Gateway } from "../../node/gateway-socket.ts";
import type { HostControl } from "../../protocol/host-wire.ts";
import type { IoServer } from "../../protocol/methods.ts";
import { OutputBudget } from "../io/output-budget.ts";
import type { Isolation } from "../isolation/isolation.ts";
import type { ProcessGroupRecords } from "../os/process-group-records.ts";
import type { AgentEnvironment } from "./agent-environment.ts";
import type { ProcessContext } from "./agent-process.ts";
import { AgentRun } from "./agent-run.ts";
import { initializeRequest } from "./initialize.ts";
import type { OfferedAgent } from "./offered-agents.ts";
import { WarmPool } from "./warm-pool.ts";

/** The result of starting an agent: its answer to `initialize`, or why there was none. */
export type AgentStartReport = Extract<HostControl, { t: "agent" | "agent_failed" }>;

export type AgentRunsOptions = {
  gateway: Pick<Gateway, "timing" | "limits" | "log">;
  root: string;
  isolation: Isolation;
  agents: readonly OfferedAgent[];
  /** Maximum number of agent processes, warm ones included. */
  maxAgents?: number | undefined;
  /** Records process groups, so that the next host can end them if this host is killed. */
  records?: ProcessGroupRecords | undefined;
};

export type AgentRunsHandlers = {
  /** How many sessions have a live run. */
  sessionRuns(): number;
  /** An agent wrote output or had a request served. */
  activity(): void;
  reported(report: AgentStartReport): void;
};

/** All agent processes of a host: those of sessions, the warm ones, and those that are being ended. */
export class AgentRuns {
  readonly #options: AgentRunsOptions;
  readonly #environment: AgentEnvironment;
  readonly #handlers: AgentRunsHandlers;
  /** Every run that still has processes. */
  readonly #runs = new Set<AgentRun>();
  /** The latest report on each agent, by agent id. */
  readonly #reports = new Map<string, AgentStartReport>();
  readonly #pool: WarmPool;
  /** The outputs of all terminals share one limit. */
  readonly #outputs: OutputBudget;
  /** A warm process could not be started because the host is at its maximum. */
  #crowded = false;
  /** The side that serves files and terminals, according to the latest order. */
  #io: IoServer = "host";
  /** What is hidden from the warm processes. */
  #hidden: number;
  #closing = false;

  constructor(options: AgentRunsOptions, environment: AgentEnvironment, handlers: AgentRunsHandlers) {
    this.#options = options;
    this.#hidden = options.isolation.hidden.revision;
    this.#environment = environment;
    this.#handlers = handlers;
    this.#outputs = new OutputBudget(options.gateway.limits.hostTerminalBytes);
    this.#pool = new WarmPool((agent) => this.#startWarm(agent), options.gateway.timing);
  }

  [Symbol.iterator](): IterableIterator<AgentRun> {
    return this.#runs.values();
  }

  get reports(): AgentStartReport[] {
    return [...this.#reports.values()];
  }

  /**
   * A run of the agent for a session; `io` is the side that serves its files and terminals. A run that cannot be started
   * reports why through its exit.
   */
  open(agentId: string, io: IoServer = "host"): AgentRun {
    this.#expect(io);
    const run = this.#open(agentId);
    run.io = io;
    return run;
  }

  #open(agentId: string): AgentRun {
    const agent = this.#find(agentId);
    if (!agent) return this.#failed(`this host has no agent ${JSON.stringify(agentId)}`);
    const reason = this.#refusalReason(agent);
    if (reason !== undefined) return this.#failed(reason);
    this.#hideFromWarm();
    const warm = this.#pool.take(agent);
    if (!warm && this.#isFull()) {
      this.#crowded = true;
      this.#pool.evict();
    }
    return warm ?? this.#start(agent);
  }

  /**
   * The workspace's setting is known by its latest order. Warm processes of agents that would be offered something else
   * now are replaced.
   */
  #expect(io: IoServer): void {
    const before = this.#io;
    if (io === before) return;
    this.#io = io;
    const { agents } = this.#options;
    this.replaceWarm(
      agents.filter(({ offers }) => initializeRequest(io, offers) !== initializeRequest(before, offers)),
    );
  }

  /** A process keeps the view that it started with, so warm processes are replaced if more has to be hidden. */
  #hideFromWarm(): void {
    const { agents, isolation } = this.#options;
    const { revision } = isolation.hidden;
    if (revision === this.#hidden) return;
    this.#hidden = revision;
    this.replaceWarm(agents);
  }

  warmDefault(): void {
    const agent = this.#options.agents.find((offered) => offered.default);
    if (agent) this.warm(agent.id);
  }

  warm(agentId: string): void {
    const agent = this.#find(agentId);
    if (this.#closing || !agent) return;
    const reason = this.#environment.unavailableReason(agent);
    if (reason === undefined) this.#pool.warm(agent);
    else this.#report({ t: "agent_failed", id: agent.id, error: reason });
  }

  /** Replaces warm processes that were started in another way than the next ones will be. */
  replaceWarm(agents: readonly OfferedAgent[]): void {
    for (const agent of agents) this.#pool.drop(agent);
    this.warmDefault();
  }

  closePool(): void {
    this.#pool.close();
  }

  /** Ends all agents and resolves when their processes are gone. */
  async close(reason: string): Promise<void> {
    this.#closing = true;
    this.#pool.close();
    for (const run of this.#runs) run.stop(reason);
    await Promise.all([...this.#runs].map((run) => run.gone));
  }

  #find(agentId: string): OfferedAgent | undefined {
    return this.#options.agents.find(({ id }) => id === agentId);
  }

  #isFull(): boolean {
    return this.#runs.size >= (this.#options.maxAgents ?? Number.POSITIVE_INFINITY);
  }

  #refusalReason(agent: OfferedAgent): string | undefined {
    const reason = this.#environment.unavailableReason(agent);
    if (reason !== undefined) return `agent ${agent.id} ${reason}`;
    const { maxAgents } = this.#options;
    if (maxAgents === undefined || this.#handlers.sessionRuns() < maxAgents) return undefined;
    return `this host already runs ${maxAgents} agents, which is its limit`;
  }

  #context(): ProcessContext {
    const { root, gateway, isolation } = this.#options;
    return { root, timing: gateway.timing, limits: gateway.limits, isolation, outputs: this.#outputs };
  }

  #failed(error: string): AgentRun {
    return AgentRun.failed(error, this.#context());
  }

  #startWarm(agent: OfferedAgent): AgentRun | null {
    this.#crowded = this.#isFull();
    return this.#crowded ? null : this.#start(agent);
  }

  #start(agent: OfferedAgent): AgentRun {
    const environment = this.#environment;
    const { records, gateway } = this.#options;
    const launch = {
      command: agent.command,
      initialize: initializeRequest(this.#io, agent.offers),
      env: { ...environment.ofAgent(agent), ...records?.variables },
      terminalEnv: { ...environment.ofTerminals(agent), ...records?.variables },
      redactor: environment.redactor,
      groups: records,
    };
    const run = AgentRun.start(launch, this.#context());
    this.#runs.add(run);
    run.onActivity = () => this.#handlers.activity();
    void run.gone.then(() => this.#ended(run));
    void run.initialized.then((initialized) => {
      if (this.#closing || initialized === null) return;
      if ("result" in initialized) {
        this.#report({ t: "agent", id: agent.id, initialize: initialized.result });
        this.#pool.refill(agent);
      } else {
        gateway.log(`agent ${agent.id} failed: ${initialized.error}`);
        this.#report({ t: "agent_failed", id: agent.id, error: initialized.error });
      }
    });
    return run;
  }

  #ended(run: AgentRun): void {
    this.#runs.delete(run);
    if (!this.#crowded || this.#closing) return;
    this.#crowded = false;
    this.#pool.refillAll();
  }

  /** Most processes of an agent repeat the report of the first one; only a change is passed on. */
  #report(report: AgentStartReport): void {
    const known = this.#reports.get(report.id);
    if (known && JSON.stringify(known) === JSON.stringify(report)) return;
    this.#reports.set(report.id, report);
    this.#handlers.reported(report);
  }
}
