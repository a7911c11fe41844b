import { LIMITS } from "../../protocol/limits.ts";
import type { OnDemandHost } from "../container/on-demand-host.ts";
import { type HostSockets, sendControl } from "../hosts/sockets.ts";
import type { Agent } from "./agents.ts";
import { availableIds, whyNot } from "./availability.ts";

/** What a connection needs to answer `initialize`: the agent it gets, and what that agent said, as JSON. */
export type AgentChoice =
  | { agent: string; initialize: string | null }
  /** It cannot be had; these can. */
  | { refused: string; agents: string[] };

/** Finds the agents connections ask for; waits a while for one that has not said yet what it can do. */
export class AgentChoices {
  readonly #agents: () => Agent[];
  readonly #defaultAgent: () => string | null;
  readonly #sockets: HostSockets;
  readonly #onDemand: OnDemandHost;
  /** Connections that wait for an agent's first word. They are calls in progress: nothing to restore. */
  #waiting: (() => void)[] = [];

  constructor(
    agents: () => Agent[],
    defaultAgent: () => string | null,
    sockets: HostSockets,
    onDemand: OnDemandHost,
  ) {
    this.#agents = agents;
    this.#defaultAgent = defaultAgent;
    this.#sockets = sockets;
    this.#onDemand = onDemand;
  }

  /** The agent that is wanted, or the default one. */
  async choose(wanted: string | null): Promise<AgentChoice> {
    const deadline = Date.now() + LIMITS.agentStartMs;
    for (let warmed = false; ; ) {
      const agents = this.#agents();
      const agent = agents.find((a) => (wanted === null ? a.default : a.id === wanted));
      const refused = whyNot(agents, agent?.id ?? wanted ?? "");
      if (refused !== undefined && (agent || wanted !== null))
        return { refused, agents: availableIds(agents) };
      const late = Date.now() >= deadline;
      if (!agent && (late || !this.#onDemand.isComing))
        return { agent: wanted ?? this.#defaultAgent() ?? "", initialize: null };
      if (!agent) {
        this.#onDemand.need();
        await this.#news(deadline);
        continue;
      }
      const [host] = agent.startable;
      const socket = host === undefined ? undefined : this.#sockets.of(host);
      // A session is likely to follow. Hosts keep their own default agent warm unasked.
      const kept = agent.default && agent.initialize !== null;
      if (socket && !warmed && !kept) sendControl(socket.ws, { t: "warm", agent: agent.id });
      warmed = true;
      if (agent.initialize || agent.error || !socket || late)
        return { agent: agent.id, initialize: agent.initialize };
      await this.#news(deadline);
    }
  }

  /** A host has something to say: those who wait look again. */
  wake(): void {
    for (const resolve of this.#waiting.splice(0)) resolve();
  }

  /** Resolves when a host has something to say, or when it is too late. */
  #news(deadline: number): Promise<void> {
    return new Promise((resolve) => {
      const timer = setTimeout(resolve, deadline - Date.now());
      this.#waiting.push(() => {
        clearTimeout(timer);
        resolve();
      });
    });
  }
}
