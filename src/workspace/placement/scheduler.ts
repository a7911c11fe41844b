import { agentNamed } from "../../protocol/agent-availability.ts";
import { type Agent, agentsOf } from "../agents/agents.ts";
import type { AgentOffers } from "../agents/offers.ts";
import type { OnDemandHost } from "../container/on-demand-host.ts";
import { CONTAINER_HOST } from "../container/starter.ts";
import type { HostRegistry } from "../hosts/registry.ts";
import { type HostSockets, sendControl } from "../hosts/sockets.ts";
import type { WorkspaceStore } from "../store.ts";
import type { Placement, Placements } from "./placements.ts";
import { type Candidate, choosePlacement, wouldHelp } from "./policy.ts";

type Parts = {
  store: WorkspaceStore;
  placements: Placements;
  hosts: HostRegistry;
  offers: AgentOffers;
  sockets: HostSockets;
  onDemand: OnDemandHost;
};

/** Applies the placement policy: places sessions on hosts, and starts the container for sessions that need it. */
export class PlacementScheduler {
  readonly #parts: Parts;

  constructor(parts: Parts) {
    this.#parts = parts;
  }

  agents(): Agent[] {
    const { hosts, offers, store } = this.#parts;
    return agentsOf(hosts.all(), offers.all(), store.settings(), Date.now());
  }

  /** Places every waiting session for which there is a host. */
  placeWaiting(): void {
    const { store, placements, sockets, onDemand } = this.#parts;
    const candidates = this.#candidates();
    const settings = store.settings();
    for (const waiting of placements.waiting()) {
      const placement = this.#withAgent(waiting);
      const decision = choosePlacement(placement, candidates, settings, Date.now());
      const socket = "host" in decision ? sockets.of(decision.host) : undefined;
      if (!socket) {
        if (this.#needsContainer(placement, candidates)) onDemand.request();
        continue;
      }
      const { ws, host, instance } = socket;
      const { session, agent, processRequest } = placement;
      const io = settings.clientIo;
      placements.assign(session, { agent, host, instance, io });
      for (const candidate of candidates) if (candidate.name === host) candidate.placed += 1;
      sendControl(ws, { t: "open", sessionId: session, agent, processRequest, io });
    }
  }

  /** Tells people what the session waits for; null if it waits for nothing. */
  explain(sessionId: string): string | null {
    const { store, placements, onDemand } = this.#parts;
    const placement = placements.get(sessionId);
    if (!placement) return null;
    const { host } = placement;
    if (host !== null) return `host "${host}", which was asked to start the agent`;
    const candidates = this.#candidates();
    const waiting = this.#withAgent(placement);
    const decision = choosePlacement(waiting, candidates, store.settings(), Date.now());
    if ("host" in decision) return null;
    return this.#needsContainer(waiting, candidates) ? onDemand.describe() : decision.waitsFor;
  }

  /**
   * A session that was opened before the workspace knew any agent gets the default agent, or the agent that its client
   * knows by another name.
   */
  #withAgent(placement: Placement): Placement {
    const agents = this.agents();
    const agent =
      placement.agent === ""
        ? (agents.find((one) => one.default) ?? agents.find((one) => one.available))
        : agentNamed(agents, placement.agent);
    return agent ? { ...placement, agent: agent.id } : placement;
  }

  #needsContainer(placement: Placement, candidates: readonly Candidate[]): boolean {
    const { store, onDemand } = this.#parts;
    if (!onDemand.isConfigured) return false;
    return wouldHelp(CONTAINER_HOST, placement, candidates, store.settings(), Date.now());
  }

  #candidates(): Candidate[] {
    const { hosts, offers, placements } = this.#parts;
    const placed = placements.counts();
    const offersByHost = Map.groupBy(offers.all(), ({ host }) => host);
    return hosts.all().map((host) => ({
      name: host.name,
      state: host.state,
      lastSeenAt: host.lastSeenAt,
      hasLeft: host.hasLeft,
      agents: (offersByHost.get(host.name) ?? []).filter(({ available }) => available).map(({ id }) => id),
      placed: placed.get(host.name) ?? 0,
      capacity: host.capacity,
      maxAgents: host.about.maxAgents ?? null,
      loadAverage: host.load?.loadAverage ?? 0,
    }));
  }
}
