import { randomUUID } from "node:crypto";
import { availableParallelism } from "node:os";
import { setTimeout as sleep } from "node:timers/promises";
import type { Gateway } from "../node/gateway-socket.ts";
import { VERSION } from "../node/version.ts";
import { type GitState, type HostControl, LINK_VERSION } from "../protocol/host-wire.ts";
import { AgentEnvironment } from "./agent/agent-environment.ts";
import { agentOffers } from "./agent/agent-offers.ts";
import type { AgentRun } from "./agent/agent-run.ts";
import { AgentRuns } from "./agent/agent-runs.ts";
import type { OfferedAgent } from "./agent/offered-agents.ts";
import { Isolation } from "./isolation/isolation.ts";
import { ControlLink, type HostRefusal, type ProcessOrder } from "./link/control-link.ts";
import { LoadReport } from "./link/load-report.ts";
import { SessionLink } from "./link/session-link.ts";
import { GitWatch } from "./os/git-watch.ts";
import type { ProcessGroupRecords } from "./os/process-group-records.ts";
import { type ResourceLimits, ResourceWatch } from "./os/resource-watch.ts";

export type HostOptions = {
  gateway: Gateway;
  workspace: string;
  name: string;
  /** Absolute path of the workspace, free of symbolic links. */
  root: string;
  agents: readonly OfferedAgent[];
  /** Number of agents that this host prefers to run at most; by default a few for each processor. */
  capacity?: number | undefined;
  /** Number of agents that this host runs at most, warm processes included. */
  maxAgents?: number | undefined;
  /** The resources that each agent may use. */
  agentLimits?: ResourceLimits;
  /** Records process groups, so that the next host can end them if this host is killed. */
  records?: ProcessGroupRecords | undefined;
  /** How agents are kept from the host's token and from each other; by default not at all. */
  isolation?: Isolation;
  /** Names of environment variables that every agent receives. */
  passEnv?: readonly string[];
  /** The gateway refuses this host for good. */
  onRefused(reason: string, why: HostRefusal): void;
};

/** Agents spend most of their time waiting for their models. */
const AGENTS_PER_PROCESSOR = 8;

type ServedSession = {
  run: AgentRun;
  link: SessionLink;
  processRequest: number;
  /** The session has requested another process, which starts when the link has finished with this run. */
  next?: ProcessOrder;
};

/** Runs agents for the sessions of one workspace. */
export class Host {
  readonly #options: HostOptions & { isolation: Isolation };
  readonly #instance = randomUUID();
  readonly #sessions = new Map<string, ServedSession>();
  readonly #control: ControlLink;
  readonly #runs: AgentRuns;
  readonly #environment: AgentEnvironment;
  readonly #git: GitWatch;
  readonly #load: LoadReport;
  readonly #resources: ResourceWatch;
  /** The token that the gateway issued, if it did. It is newer than the token this host was started with. */
  #issuedToken: string | undefined;
  #draining = false;
  #closing = false;

  constructor(given: HostOptions) {
    const { isolation = Isolation.none(given.root) } = given;
    const variables = isolation.environment(process.env);
    this.#environment = new AgentEnvironment(variables, given.agents, given.passEnv);
    const options = { ...given, isolation, gateway: this.#guarded(given.gateway) };
    this.#options = options;
    const { timing } = options.gateway;
    const gitChanged = (git: GitState | null) => this.#control.send({ t: "workspace", git });
    this.#git = new GitWatch(options.root, timing, gitChanged, isolation);
    this.#load = new LoadReport(
      timing,
      () => this.#liveRuns().length,
      (load) => this.#control.send({ t: "load", ...load }),
    );
    this.#runs = new AgentRuns(options, this.#environment, {
      sessionRuns: () => this.#liveRuns().length,
      activity: () => this.#git.touch(),
      reported: (report) => this.#control.send(report),
    });
    this.#resources = new ResourceWatch(options.agentLimits ?? {}, timing.usageEveryMs, () => this.#runs);
    this.#control = new ControlLink(options.gateway, options.workspace, {
      greeting: () => this.#greeting(),
      open: (sessionId, order) => this.#open(sessionId, order),
      warm: (agentId) => this.#runs.warm(agentId),
      secrets: (values) => this.#setSecrets(values),
      token: (token) => {
        this.#issuedToken = token;
      },
      refused: options.onRefused,
      redactJson: (text) => this.#environment.redactor.redactJson(text),
    });
    this.#runs.warmDefault();
  }

  /** Accepts no new sessions, and waits at most `ms` until its sessions can continue without this host. */
  async drain(ms: number): Promise<void> {
    if (ms <= 0) return;
    this.#draining = true;
    this.#runs.closePool();
    this.#control.send({ t: "draining" });
    const timeout = new AbortController();
    await Promise.race([
      this.#sessionsDone(),
      sleep(ms, undefined, { signal: timeout.signal }).catch(() => {}),
    ]);
    timeout.abort();
  }

  async #sessionsDone(): Promise<void> {
    while (this.#sessions.size > 0)
      await Promise.all([...this.#sessions.values()].map(({ link }) => link.done));
  }

  /** Ends every agent, delivers their exits to the sessions, and disconnects. */
  async close(): Promise<void> {
    this.#closing = true;
    this.#git.close();
    this.#load.close();
    this.#resources.close();
    await this.#runs.close("the host was shut down");
    await this.#git.idle;
    await Promise.all([...this.#sessions.values()].map(({ link }) => link.finish()));
    this.#control.close();
  }

  /** The gateway with the token that is valid now, and with a log that contains no secrets. */
  #guarded(gateway: Gateway): Gateway {
    return {
      ...gateway,
      log: (event) => gateway.log(this.#environment.redact(event)),
      token: async (refused) => {
        const issued = this.#issuedToken === refused ? undefined : this.#issuedToken;
        const token = issued ?? (await gateway.token(refused));
        this.#environment.redactor.learn("ACP_EDGE_HOST_TOKEN", token);
        return token;
      },
    };
  }

  #greeting(): HostControl[] {
    const { name, root, capacity, maxAgents, isolation } = this.#options;
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
        isolation: isolation.name,
        draining: this.#draining,
        agents: agentOffers(this.#options.agents, this.#environment),
        runs: this.#liveRuns(),
        ...(this.#environment.hasSecrets && { secrets: true }),
      },
      ...this.#runs.reports,
      { t: "load", ...this.#load.greet() },
      ...(this.#git.state === undefined ? [] : [{ t: "workspace" as const, git: this.#git.state }]),
    ];
  }

  #liveRuns(): { sessionId: string; run: string }[] {
    return [...this.#sessions].flatMap(([sessionId, { run }]) =>
      run.isLive ? { sessionId, run: run.id } : [],
    );
  }

  /** Replaces all secrets of the workspace. Warm processes that were started with other secrets are replaced too. */
  #setSecrets(values: Record<string, string>): void {
    const affected = this.#environment.setSecrets(values);
    const agents = agentOffers(this.#options.agents, this.#environment);
    this.#control.send({ t: "offers", agents });
    this.#runs.replaceWarm(affected);
  }

  /** The gateway cannot know which messages arrived, so it may repeat a request for a session that is served already. */
  #open(sessionId: string, order: ProcessOrder): void {
    if (this.#closing) return;
    const session = this.#sessions.get(sessionId);
    if (!session) {
      this.#serve(sessionId, order);
      return;
    }
    if (order.processRequest > session.processRequest) session.next = order;
    session.link.retryNow();
  }

  #serve(sessionId: string, { agent, processRequest, io }: ProcessOrder): void {
    const { gateway, name, root } = this.#options;
    const run = this.#runs.open(agent, io);
    const session: ServedSession = {
      run,
      processRequest,
      link: new SessionLink(
        gateway,
        sessionId,
        { agent, host: name, root, processRequest, ...(io === "client" && { io }) },
        run,
        () => this.#draining,
      ),
    };
    this.#sessions.set(sessionId, session);
    this.#sessionsChanged();
    void session.link.done.then(() => {
      this.#sessions.delete(sessionId);
      this.#sessionsChanged();
      const { next } = session;
      if (next && !this.#closing) this.#serve(sessionId, next);
    });
    gateway.log(`session ${sessionId}: agent ${agent}, run ${run.id}`);
  }

  #sessionsChanged(): void {
    this.#load.touch();
    this.#git.busy = this.#sessions.size > 0;
  }
}
