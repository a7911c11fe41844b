import type { AgentInfo } from "../../protocol/rest.ts";
import type { Settings } from "../../protocol/workspace-settings.ts";
import type { HostRecord } from "../hosts/record.ts";
import { isOverdue } from "../placement/policy.ts";
import type { Offer } from "./offer.ts";

/** The agents of a workspace, merged from the offers of its hosts. */

export type Agent = AgentInfo & {
  /** The agent's response to `initialize` as JSON. */
  initialize: string | null;
  /** The connected hosts that can start the agent. */
  startable: string[];
};

/** The host whose directory and git state stand for the workspace: of the connected hosts, or else of all, the newest. */
export function mainHost(hosts: readonly HostRecord[]): HostRecord | undefined {
  const connected = hosts.filter(({ state }) => state !== "gone");
  return (connected.length > 0 ? connected : hosts).toSorted((a, b) => b.connectedAt - a.connectedAt)[0];
}

/**
 * The agents of the hosts that are connected or within their grace period, the default first. While no host is
 * connected, the agents of all remembered hosts: a client often comes before the first host does.
 */
export function agentsOf(
  hosts: readonly HostRecord[],
  offers: readonly Offer[],
  { defaultAgent, hostGraceMs }: Pick<Settings, "defaultAgent" | "hostGraceMs">,
  now: number,
): Agent[] {
  const expected = hosts.filter((host) => !isOverdue(host, hostGraceMs, now));
  const connected = new Set(hosts.filter(({ state }) => state !== "gone").map(({ name }) => name));
  const counted = new Set((connected.size > 0 ? expected : hosts).map(({ name }) => name));
  const relevant = offers
    .filter(({ host }) => counted.has(host))
    .toSorted((a, b) => Number(connected.has(b.host)) - Number(connected.has(a.host)));
  const byId = Map.groupBy(relevant, ({ id }) => id);
  const first =
    defaultAgent !== null && byId.has(defaultAgent)
      ? defaultAgent
      : relevant.find(({ isDefault }) => isDefault)?.id;
  return [...byId]
    .map(([id, all]) => agentOf(id, id === first, all, connected))
    .sort((a, b) => Number(b.default) - Number(a.default) || (a.id < b.id ? -1 : 1));
}

/** The agent is available, ready and without error as soon as it is so on one host. */
function agentOf(
  id: string,
  isDefault: boolean,
  all: readonly Offer[],
  connected: ReadonlySet<string>,
): Agent {
  const available = all.filter((offer) => offer.available);
  const offers = available.length > 0 ? available : all;
  const started = offers.find(({ initialize, error }) => initialize !== null && error === null);
  const initialize =
    started?.initialize ?? offers.find((offer) => offer.initialize !== null)?.initialize ?? null;
  const isUntried = offers.some((offer) => offer.initialize === null && offer.error === null);
  return {
    id,
    name: offers[0]?.name ?? id,
    default: isDefault,
    available: available.length > 0,
    reason: available.length > 0 ? null : (all.find(({ reason }) => reason !== null)?.reason ?? null),
    description: offers[0]?.description ?? null,
    version: offers[0]?.version ?? null,
    aliases: [...new Set(offers.flatMap(({ aliases }) => aliases))],
    ready: initialize !== null,
    error: started || isUntried ? null : (offers.find(({ error }) => error !== null)?.error ?? null),
    initialize,
    startable: available.filter((offer) => connected.has(offer.host)).map(({ host }) => host),
  };
}
