import { randomUUID } from "node:crypto";
import { availableParallelism } from "node:os";
import { setTimeout as sleep } from "node:timers/promises";
import type { Gateway } from "../node/gateway-socket.ts";
import { VERSION } from "../node/version.ts";
import { type AgentOffer, type HostControl, LINK_VERSION } from "../protocol/host-wire.ts";
import type { IoServer } from "../protocol/methods.ts";
import { AgentEnvironment } from "./agent/agent-environment.ts";
import { AgentRun } from "./agent/agent-run.ts";
import type { OfferedAgent } from "./agent/offered-agents.ts";
import { WarmPool } from "./agent/warm-pool.ts";
import { ControlLink, type HostRefusal } from "./link/control-link.ts";
import { LoadReport } from "./link/load-report.ts";
import { SessionLink } from "./link/session-link.ts";
import { GitWatch } from "./os/git-watch.ts";
import type { ProcessGroupRecords } from "./os/process-group-records.ts";
import { type ResourceLimits, ResourceWatch } from "./os/resource-watch.ts";

export type HostOptions = {
  gateway: Gateway;
  workspace: string;
  name: string;
  /** Absolute path of the workspace, with no symbolic link in it. */
  root: string;
  agents: readonly OfferedAgent[];
  /** Agents it would like to run at most; by default a few for each processor. */
  capacity?: number | undefined;
  /** Agents it runs at most, spares included. */
  maxAgents?: number | undefined;
  /** What each of them may use. */
  limits?: ResourceLimits;
  /** Remembers what is started, should this host be killed. */
  records?: ProcessGroupRecords | undefined;
  /** Names of variables that every agent gets. */
  passEnv?: readonly string[];
  /** The gateway does not want this host. */
  onRefused(reason: string, why: HostRefusal): void;
};

/** Agents mostly wait for their models. */
const AGENTS_PER_PROCESSOR = 8;

type Session = {
  run: AgentRun;
  link: SessionLink;
  wish: number;
  /** What to start once the link is done with this run, because the session has asked for another. */
  next?: { agent: string; wish: number };
};

/** Runs agents for the sessions of one workspace. */
export class Host {
  readonly #options: HostOptions;
  readonly #instance = randomUUID();
  readonly #sessions = new Map<string, Session>();
  /** Every run with processes, whether a session's, spare, or dismissed and dying. */
  readonly #runs = new Set<AgentRun>();
  /** What is known of each agent, repeated to the gateway on each new control socket. */
  readonly #reports = new Map<string, HostControl>();
  readonly #control: ControlLink;
  readonly #spares: WarmPool;
  readonly #environment: AgentEnvironment;
  readonly #files: GitWatch;
  readonly #load: LoadReport;
  #token: string | undefined;
  readonly #usage: ResourceWatch;
  /** There was no room for a spare. */
  #crowded = false;
  /** Who serves the files and terminals of agents that are started now. */
  #io: IoServer = "host";
  #draining = false;
  #closing = false;

  constructor(given: HostOptions) {
    this.#environment = new AgentEnvironment(process.env, given.agents, given.passEnv);
    const log = (event: string) => given.gateway.log(this.#environment.redact(event));
    const token = async (refused?: string) => {
      // A token from the gateway is newer than any we were started with.
      const theirs = this.#token === refused ? undefined : this.#token;
      const text = theirs ?? (await given.gateway.token(refused));
      this.#environment.redactor.learn("ACP_EDGE_HOST_TOKEN", text);
      return text;
    };
    const options = { ...given, gateway: { ...given.gateway, log, token } };
    this.#options = options;
    const { timing } = options.gateway;
    this.#files = new GitWatch(options.root, timing, (git) => this.#control.send({ t: "workspace", git }));
    this.#load = new LoadReport(
      timing,
      () => this.#liveRuns().length,
      (load) => this.#control.send({ t: "load", ...load }),
    );
    this.#usage = new ResourceWatch(options.limits ?? {}, timing.usageEveryMs, () => this.#runs);
    this.#spares = new WarmPool((agent) => this.#startSpare(agent), timing);
    this.#control = new ControlLink(options.gateway, options.workspace, {
      greeting: () => this.#greeting(),
      open: (sessionId, agent, wish) => this.#open(sessionId, agent, wish),
      warm: (agentId) => this.#warm(agentId),
      settings: ({ clientIo = "host" }) => this.#serveIoBy(clientIo),
      secrets: (values) => this.#learn(values),
      token: (newer) => {
        this.#token = newer;
      },
      refused: options.onRefused,
    });
    this.#warmDefault();
  }

  /** Takes nothing new, and waits for so long at most until its sessions can do without it. */
  async drain(ms: number): Promise<void> {
    if (ms <= 0) return;
    this.#draining = true;
    this.#spares.close();
    this.#control.send({ t: "draining" });
    const late = new AbortController();
    await Promise.race([this.#allDone(), sleep(ms, undefined, { signal: late.signal }).catch(() => {})]);
    late.abort();
  }

  async #allDone(): Promise<void> {
    while (this.#sessions.size > 0)
      await Promise.all([...this.#sessions.values()].map(({ link }) => link.done));
  }

  /** Ends every agent, tells the sessions, and hangs up. */
  async close(): Promise<void> {
    this.#closing = true;
    this.#spares.close();
    this.#files.close();
    this.#load.close();
    this.#usage.close();
    for (const run of this.#runs) run.stop("the host was shut down");
    await Promise.all([...this.#runs].map((run) => run.gone));
    await this.#files.idle;
    await Promise.all([...this.#sessions.values()].map(({ link }) => link.finish()));
    this.#control.close();
  }

  #greeting(): HostControl[] {
    const { name, root, capacity, maxAgents } = this.#options;
    return [
      {
        t: "hello",
        version: LINK_VERSION,
        name,
        instance: this.#instance,
        root,
        software: {
          version: VERSION,
          node: process.version,
          platform: `${process.platform} ${process.arch}`,
        },
        capacity: capacity ?? maxAgents ?? AGENTS_PER_PROCESSOR * availableParallelism(),
        maxAgents,
        draining: this.#draining,
        agents: this.#offers(),
        runs: this.#liveRuns(),
        ...(this.#environment.hasSecrets && { secrets: true }),
      },
      ...this.#reports.values(),
      { t: "load", ...this.#load.current },
      ...(this.#files.state === undefined ? [] : [{ t: "workspace" as const, git: this.#files.state }]),
    ];
  }

  #liveRuns(): { sessionId: string; run: string }[] {
    return [...this.#sessions].flatMap(([sessionId, { run }]) =>
      run.live ? { sessionId, run: run.id } : [],
    );
  }

  #offers(): AgentOffer[] {
    return this.#options.agents.map((agent) => {
      const { id, name, default: isDefault, description, version } = agent;
      const reason = this.#environment.lacks(agent);
      return {
        id,
        name: this.#environment.redact(name).slice(0, 200),
        default: isDefault,
        available: reason === undefined,
        ...(reason !== undefined && { reason: reason.slice(0, 1000) }),
        ...(description !== undefined && { description: description.slice(0, 500) }),
        ...(version !== undefined && { version: version.slice(0, 100) }),
      };
    });
  }

  /** The secrets of the workspace, all of them. Whatever started without them starts again. */
  #learn(values: Record<string, string>): void {
    for (const agent of this.#environment.learn(values)) this.#spares.drop(agent);
    this.#control.send({ t: "offers", agents: this.#offers() });
    this.#warmDefault();
  }

  /** It is part of how an agent is started, so spares that were started otherwise are of no use. */
  #serveIoBy(io: IoServer): void {
    if (this.#io === io) return;
    this.#io = io;
    for (const agent of this.#options.agents) this.#spares.drop(agent);
    this.#warmDefault();
  }

  #warmDefault(): void {
    const agent = this.#options.agents.find((one) => one.default);
    if (agent) this.#warm(agent.id);
  }

  #warm(agentId: string): void {
    const agent = this.#options.agents.find(({ id }) => id === agentId);
    if (this.#closing || !agent) return;
    const reason = this.#environment.lacks(agent);
    if (reason === undefined) this.#spares.warm(agent);
    else this.#report({ t: "agent_failed", id: agent.id, error: reason });
  }

  /** May be asked again for a session it serves already: the gateway cannot know which of its words arrived. */
  #open(sessionId: string, agentId: string, wish: number): void {
    if (this.#closing) return;
    const session = this.#sessions.get(sessionId);
    if (!session) {
      this.#serve(sessionId, agentId, wish);
      return;
    }
    if (wish > session.wish) session.next = { agent: agentId, wish };
    session.link.retryNow();
  }

  #serve(sessionId: string, agentId: string, wish: number): void {
    const { gateway, name, root, agents } = this.#options;
    const agent = agents.find(({ id }) => id === agentId);
    const run = agent
      ? this.#runOf(agent)
      : AgentRun.failed(`this host has no agent ${JSON.stringify(agentId)}`, root, gateway.timing);
    const session: Session = {
      run,
      wish,
      link: new SessionLink(
        gateway,
        sessionId,
        { agent: agentId, host: name, root, wish, ...(run.io === "client" && { io: run.io }) },
        run,
        () => this.#draining,
      ),
    };
    this.#sessions.set(sessionId, session);
    this.#runsChanged();
    void session.link.done.then(() => {
      this.#sessions.delete(sessionId);
      this.#runsChanged();
      const { next } = session;
      if (next && !this.#closing) this.#serve(sessionId, next.agent, next.wish);
    });
    gateway.log(`session ${sessionId}: agent ${agentId}, run ${run.id}`);
  }

  #runsChanged(): void {
    this.#load.touch();
    this.#files.busy = this.#sessions.size > 0;
  }

  #runOf(agent: OfferedAgent): AgentRun {
    const { root, gateway } = this.#options;
    const reason = this.#environment.lacks(agent);
    if (reason !== undefined) return AgentRun.failed(`agent ${agent.id} ${reason}`, root, gateway.timing);
    const { maxAgents = Number.POSITIVE_INFINITY } = this.#options;
    if (this.#liveRuns().length >= maxAgents)
      return AgentRun.failed(
        `this host runs ${maxAgents} agents already, which is its limit`,
        root,
        gateway.timing,
      );
    const spare = this.#spares.take(agent);
    // Those of other agents give way.
    if (!spare && this.#runs.size >= maxAgents) {
      this.#crowded = true;
      this.#spares.giveWay();
    }
    return spare ?? this.#start(agent);
  }

  #startSpare(agent: OfferedAgent): AgentRun | null {
    this.#crowded = this.#runs.size >= (this.#options.maxAgents ?? Number.POSITIVE_INFINITY);
    return this.#crowded ? null : this.#start(agent);
  }

  #start(agent: OfferedAgent): AgentRun {
    const environment = this.#environment;
    const { records } = this.#options;
    const launch = {
      command: agent.command,
      env: { ...environment.ofAgent(agent), ...records?.variables },
      terminalEnv: { ...environment.ofTerminals(agent), ...records?.variables },
      redactor: environment.redactor,
      groups: records,
    };
    const run = AgentRun.start(launch, this.#options.root, this.#options.gateway.timing, this.#io);
    this.#runs.add(run);
    run.onActivity = () => this.#files.touch();
    void run.gone.then(() => this.#ended(run));
    void run.initialized.then((initialized) => {
      if (this.#closing || initialized === null) return;
      if ("result" in initialized) {
        this.#report({ t: "agent", id: agent.id, initialize: initialized.result });
        this.#spares.encourage(agent);
      } else {
        this.#options.gateway.log(`agent ${agent.id} failed: ${initialized.error}`);
        this.#report({ t: "agent_failed", id: agent.id, error: initialized.error });
      }
    });
    return run;
  }

  #ended(run: AgentRun): void {
    this.#runs.delete(run);
    if (!this.#crowded || this.#closing) return;
    this.#crowded = false;
    this.#spares.encourageAll();
  }

  /** "Sent when it is first known": the same answer from the next process is no news. */
  #report(report: HostControl & { id: string }): void {
    const known = this.#reports.get(report.id);
    if (known && JSON.stringify(known) === JSON.stringify(report)) return;
    this.#reports.set(report.id, report);
    this.#control.send(report);
  }
}
