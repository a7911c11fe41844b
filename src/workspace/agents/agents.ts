import type { Settings } from "../../protocol/workspace-settings.ts";
import type { HostRecord, Offer } from "../hosts/record.ts";
import { isOverdue } from "../placement/policy.ts";

/** What the workspace offers, taken together from what its hosts do. */

export type AgentInfo = {
  id: string;
  name: string;
  default: boolean;
  /** False: `reason` says what it lacks. */
  available: boolean;
  reason: string | null;
  description: string | null;
  version: string | null;
  /** It has been started before, so that it is known what it can do. */
  ready: boolean;
  /** Why it could not be started when that was last tried. */
  error: string | null;
};

/** An agent of the workspace, whichever hosts offer it. */
export type Agent = AgentInfo & {
  initialize: string | null;
  /** Hosts that are here and can start it: the first is as good as any to ask what it can do. */
  startable: string[];
};

/** The host that speaks for the workspace: one that is here, and of these the newest. */
export function mainHost(hosts: readonly HostRecord[]): HostRecord | undefined {
  const here = hosts.filter(({ state }) => state !== "gone");
  return (here.length > 0 ? here : hosts).toSorted((a, b) => b.connectedAt - a.connectedAt)[0];
}

/**
 * The agents of hosts that are here or expected back; should there be none, of all that are remembered, because
 * a client may well come before the first host does. The default comes first.
 */
export function agentsOf(
  hosts: readonly HostRecord[],
  offers: readonly Offer[],
  { defaultAgent, hostGraceMs }: Settings,
  now: number,
): Agent[] {
  const expected = hosts.filter((host) => !isOverdue(host, hostGraceMs, now));
  const here = new Set(hosts.filter(({ state }) => state !== "gone").map(({ name }) => name));
  const asked = new Set((here.size > 0 ? expected : hosts).map(({ name }) => name));
  const relevant = offers
    .filter(({ host }) => asked.has(host))
    .toSorted((a, b) => Number(here.has(b.host)) - Number(here.has(a.host)));
  const byId = Map.groupBy(relevant, ({ id }) => id);
  const first =
    defaultAgent !== null && byId.has(defaultAgent)
      ? defaultAgent
      : relevant.find(({ isDefault }) => isDefault)?.id;
  return [...byId]
    .map(([id, all]) => agentOf(id, id === first, all, here))
    .sort((a, b) => Number(b.default) - Number(a.default) || (a.id < b.id ? -1 : 1));
}

/** One host that can run the agent is enough. */
function agentOf(id: string, isDefault: boolean, all: readonly Offer[], here: ReadonlySet<string>): Agent {
  const available = all.filter((offer) => offer.available);
  const offers = available.length > 0 ? available : all;
  const able = offers.find(({ initialize, error }) => initialize !== null && error === null);
  const initialize =
    able?.initialize ?? offers.find((offer) => offer.initialize !== null)?.initialize ?? null;
  const untried = offers.some((offer) => offer.initialize === null && offer.error === null);
  return {
    id,
    name: offers[0]?.name ?? id,
    default: isDefault,
    available: available.length > 0,
    reason: available.length > 0 ? null : (all.find(({ reason }) => reason !== null)?.reason ?? null),
    description: offers[0]?.description ?? null,
    version: offers[0]?.version ?? null,
    ready: initialize !== null,
    error: able || untried ? null : (offers.find(({ error }) => error !== null)?.error ?? null),
    initialize,
    startable: available.filter((offer) => here.has(offer.host)).map(({ host }) => host),
  };
}
