import { type Agent, agentsOf } from "../agents/agents.ts";
import type { OnDemandHost } from "../container/on-demand-host.ts";
import { CONTAINER_HOST } from "../container/starter.ts";
import type { Hosts } from "../hosts/registry.ts";
import { type HostSockets, sendControl } from "../hosts/sockets.ts";
import type { Placement, Store } from "../store.ts";
import { type Candidate, decide, wouldHelp } from "./policy.ts";

/** Puts sessions on hosts as `decide` says, and starts the container for those it would help. */
export class Placing {
  readonly #store: Store;
  readonly #hosts: Hosts;
  readonly #sockets: HostSockets;
  readonly #onDemand: OnDemandHost;

  constructor(store: Store, hosts: Hosts, sockets: HostSockets, onDemand: OnDemandHost) {
    this.#store = store;
    this.#hosts = hosts;
    this.#sockets = sockets;
    this.#onDemand = onDemand;
  }

  agents(): Agent[] {
    return agentsOf(this.#hosts.all(), this.#hosts.offers(), this.#store.settings(), Date.now());
  }

  /** Everyone who waits gets a place, if there is one. */
  settle(): void {
    const candidates = this.#hosts.candidates();
    const settings = this.#store.settings();
    for (const placement of this.#store.waiting()) {
      const { session, agent, wish } = this.#wishOf(placement);
      const decision = decide({ ...placement, agent }, candidates, settings, Date.now());
      const socket = "host" in decision ? this.#sockets.of(decision.host) : undefined;
      if (!socket) {
        if (this.#needsContainer({ ...placement, agent }, candidates)) this.#onDemand.need();
        continue;
      }
      const { ws, host, instance } = socket;
      this.#store.assign(session, agent, host, instance);
      for (const candidate of candidates) if (candidate.name === host) candidate.placed += 1;
      sendControl(ws, { t: "open", sessionId: session, agent, processRequest: wish });
    }
  }

  /** What a session has been waiting for, in words for people. */
  explain(sessionId: string): string | null {
    const placement = this.#store.placement(sessionId);
    if (!placement) return null;
    const { host } = placement;
    if (host !== null) return `host "${host}", which was asked to start the agent`;
    const candidates = this.#hosts.candidates();
    const wish = this.#wishOf(placement);
    const decision = decide(wish, candidates, this.#store.settings(), Date.now());
    if ("host" in decision) return null;
    return this.#needsContainer(wish, candidates) ? this.#onDemand.describe() : decision.waitsFor;
  }

  /** Who opened a session before any agent was known gets the default one. */
  #wishOf(placement: Placement): Placement {
    if (placement.agent !== "") return placement;
    const agents = this.agents();
    const agent = agents.find((one) => one.default) ?? agents.find((one) => one.available);
    return agent ? { ...placement, agent: agent.id } : placement;
  }

  #needsContainer(wish: Placement, candidates: readonly Candidate[]): boolean {
    if (!this.#onDemand.isConfigured) return false;
    return wouldHelp(CONTAINER_HOST, wish, candidates, this.#store.settings(), Date.now());
  }
}
