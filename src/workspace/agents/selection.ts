import { agentNamed, availableIds, unavailableReason } from "../../protocol/agent-availability.ts";
import { accepted, type Result, refused } from "../../protocol/refusal.ts";
import type { SelectedAgent } from "../../protocol/rpc.ts";
import type { Settings } from "../../protocol/workspace-settings.ts";
import type { OnDemandHost } from "../container/on-demand-host.ts";
import { type HostSockets, sendControl } from "../hosts/sockets.ts";
import type { Agent } from "./agents.ts";

type Parts = {
  agents: () => Agent[];
  settings: () => Pick<Settings, "defaultAgent" | "closeWithLastClient" | "clientAgentName">;
  /** The ids of the modes last known of an agent. */
  modesOf: (agent: string) => readonly string[];
  sockets: HostSockets;
  onDemand: OnDemandHost;
  /** How long a selection waits for an agent whose capabilities are not known yet. */
  maxWaitMs: number;
};

/** Selects the agents of connections. */
export class AgentSelection {
  readonly #parts: Parts;
  /** Selections that wait for a host's report. They are calls in progress, so nothing is restored after an eviction. */
  #waiting: (() => void)[] = [];

  constructor(parts: Parts) {
    this.#parts = parts;
  }

  /**
   * The wanted agent, or the default agent. For a caller that may open sessions, the agent's process or the container is
   * started, and the selection waits a while for the agent to report its capabilities. A reader gets what is known.
   */
  async select(wanted: string | null, { mayStart }: { mayStart: boolean }): Promise<Result<SelectedAgent>> {
    const { sockets, onDemand, settings, maxWaitMs } = this.#parts;
    const deadline = Date.now() + maxWaitMs;
    for (let isWarmed = false; ; ) {
      const agents = this.#parts.agents();
      const agent = wanted === null ? agents.find((one) => one.default) : agentNamed(agents, wanted);
      const message = unavailableReason(agents, agent?.id ?? wanted ?? "");
      if (message !== undefined && (agent || wanted !== null))
        return refused({ reason: "no-agent", message, agents: availableIds(agents) });
      const isLate = !mayStart || Date.now() >= deadline;
      if (!agent && (isLate || !onDemand.isComing))
        return accepted({
          agent: wanted ?? settings().defaultAgent ?? "",
          initialize: null,
          ...this.#forClient(""),
        });
      if (!agent) {
        onDemand.request();
        await this.#nextReport(deadline);
        continue;
      }
      const [host] = agent.startable;
      const socket = host === undefined ? undefined : sockets.of(host);
      // A session is likely to follow. Hosts keep their default agent warm unasked.
      const isKeptWarm = agent.default && agent.initialize !== null;
      if (mayStart && socket && !isWarmed && !isKeptWarm)
        sendControl(socket.ws, { t: "warm", agent: agent.id });
      isWarmed = true;
      if (agent.initialize || agent.error || !socket || isLate)
        return accepted({ agent: agent.id, initialize: agent.initialize, ...this.#forClient(agent.id) });
      await this.#nextReport(deadline);
    }
  }

  /** What clients of older forms are told beside the agent's own answer. */
  #forClient(agent: string): Omit<SelectedAgent, "agent" | "initialize"> {
    const { closeWithLastClient, clientAgentName: agentName } = this.#parts.settings();
    const modes = this.#parts.modesOf(agent);
    return {
      ...(modes.length > 0 && { modes }),
      ...(closeWithLastClient && { closeWithLastClient }),
      ...(agentName !== null && { agentName }),
    };
  }

  /** A host has reported something: waiting selections look again. */
  wake(): void {
    for (const resolve of this.#waiting.splice(0)) resolve();
  }

  #nextReport(deadline: number): Promise<void> {
    return new Promise((resolve) => {
      const timer = setTimeout(resolve, deadline - Date.now());
      this.#waiting.push(() => {
        clearTimeout(timer);
        resolve();
      });
    });
  }
}
