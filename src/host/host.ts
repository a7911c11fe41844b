import { randomUUID } from "node:crypto";
import { type AgentOffer, type HostControl, LINK_VERSION } from "../protocol/link.ts";
import type { Agent } from "./agent.ts";
import { ControlLink } from "./control-link.ts";
import { Environment } from "./environment.ts";
import type { Gateway } from "./gateway-socket.ts";
import { Run } from "./run.ts";
import { SessionLink } from "./session-link.ts";
import { Spares } from "./spares.ts";

export type HostOptions = {
  gateway: Gateway;
  workspace: string;
  name: string;
  /** Absolute path of the workspace, with no symbolic link in it. */
  root: string;
  agents: readonly Agent[];
  /** Names of variables that every agent gets. */
  passEnv?: readonly string[];
  /** The gateway does not want this host. */
  onRefused(reason: string): void;
};

type Session = {
  run: Run;
  link: SessionLink;
  /** The agent to start once the link is done with a run that is on its way out. */
  next?: string;
};

/** Runs agents for the sessions of one workspace. */
export class Host {
  readonly #options: HostOptions;
  readonly #instance = randomUUID();
  readonly #sessions = new Map<string, Session>();
  /** Every run with processes, whether a session's, spare, or dismissed and dying. */
  readonly #runs = new Set<Run>();
  /** What is known of each agent, repeated to the gateway on each new control socket. */
  readonly #reports = new Map<string, HostControl>();
  readonly #control: ControlLink;
  readonly #spares: Spares;
  readonly #environment: Environment;
  #closing = false;

  constructor(given: HostOptions) {
    this.#environment = new Environment(process.env, given.agents, given.passEnv);
    this.#environment.redactor.learn("ACP_EDGE_HOST_TOKEN", given.gateway.token);
    const log = (event: string) => given.gateway.log(this.#environment.redact(event));
    const options = { ...given, gateway: { ...given.gateway, log } };
    this.#options = options;
    this.#spares = new Spares((agent) => this.#start(agent), options.gateway.timing);
    this.#control = new ControlLink(options.gateway, options.workspace, {
      greeting: () => this.#greeting(),
      open: (sessionId, agent) => this.#open(sessionId, agent),
      warm: (agentId) => this.#warm(agentId),
      secrets: (values) => this.#learn(values),
      refused: options.onRefused,
    });
    this.#warmDefault();
  }

  /** Ends every agent, tells the sessions, and hangs up. */
  async close(): Promise<void> {
    this.#closing = true;
    this.#spares.close();
    for (const run of this.#runs) run.stop("the host was shut down");
    await Promise.all([...this.#runs].map((run) => run.gone));
    await Promise.all([...this.#sessions.values()].map(({ link }) => link.finish()));
    this.#control.close();
  }

  #greeting(): HostControl[] {
    const { name, root } = this.#options;
    return [
      {
        t: "hello",
        version: LINK_VERSION,
        name,
        instance: this.#instance,
        root,
        agents: this.#offers(),
        runs: [...this.#sessions].flatMap(([sessionId, { run }]) =>
          run.live ? { sessionId, run: run.id } : [],
        ),
        ...(this.#environment.hasSecrets && { secrets: true }),
      },
      ...this.#reports.values(),
    ];
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
  #open(sessionId: string, agentId: string): void {
    if (this.#closing) return;
    const session = this.#sessions.get(sessionId);
    if (!session) {
      this.#serve(sessionId, agentId);
      return;
    }
    if (!session.run.live) session.next = agentId;
    session.link.hurry();
  }

  #serve(sessionId: string, agentId: string): void {
    const { gateway, name, root, agents } = this.#options;
    const agent = agents.find(({ id }) => id === agentId);
    const run = agent
      ? this.#runOf(agent)
      : Run.failed(`this host has no agent ${JSON.stringify(agentId)}`, root, gateway.timing);
    const session: Session = {
      run,
      link: new SessionLink(gateway, sessionId, { agent: agentId, host: name, root }, run),
    };
    this.#sessions.set(sessionId, session);
    void session.link.done.then(() => {
      this.#sessions.delete(sessionId);
      if (session.next !== undefined && !this.#closing) this.#serve(sessionId, session.next);
    });
    gateway.log(`session ${sessionId}: agent ${agentId}, run ${run.id}`);
  }

  #runOf(agent: Agent): Run {
    const { root, gateway } = this.#options;
    const reason = this.#environment.lacks(agent);
    if (reason !== undefined) return Run.failed(`agent ${agent.id} ${reason}`, root, gateway.timing);
    return this.#spares.take(agent) ?? this.#start(agent);
  }

  #start(agent: Agent): Run {
    const environment = this.#environment;
    const launch = {
      command: agent.command,
      env: environment.ofAgent(agent),
      terminalEnv: environment.ofTerminals(agent),
      redactor: environment.redactor,
    };
    const run = Run.start(launch, this.#options.root, this.#options.gateway.timing);
    this.#runs.add(run);
    void run.gone.then(() => this.#runs.delete(run));
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

  /** "Sent when it is first known": the same answer from the next process is no news. */
  #report(report: HostControl & { id: string }): void {
    const known = this.#reports.get(report.id);
    if (known && JSON.stringify(known) === JSON.stringify(report)) return;
    this.#reports.set(report.id, report);
    this.#control.send(report);
  }
}
