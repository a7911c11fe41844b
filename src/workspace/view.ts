import type { GitState, HostLoad } from "../protocol/link.ts";
import type { HostRecord, Hosts, Offer } from "./hosts.ts";
import { isOverdue } from "./placement.ts";
import type { Settings } from "./settings.ts";
import type { Store } from "./store.ts";

/** The workspace as readers see it. */

export type AgentInfo = { id: string; name: string; default: boolean; ready: boolean; error: string | null };

export type HostView = {
  name: string;
  state: HostRecord["state"];
  root: string;
  version: string;
  linkVersion: number;
  node: string;
  platform: string;
  connectedAt: string;
  lastSeenAt: string;
  load: Partial<HostLoad> & { sessions: number; capacity: number };
  git: GitState | null;
  agents: string[];
};

export type WorkspaceView = {
  id: string;
  /** Of the host that connected last. */
  root: string | null;
  git: GitState | null;
  hosts: HostView[];
  agents: AgentInfo[];
  /** Sessions that have an agent process or wait for one; at most so many of them are listed. */
  sessions: { total: number; items: SessionPlace[] };
} & Settings;

export type SessionPlace = {
  sessionId: string;
  agent: string;
  host: string | null;
  state: "placed" | "waiting";
};

const SESSIONS_SHOWN = 200;

/** An agent of the workspace, whichever hosts offer it. */
export type Agent = AgentInfo & {
  initialize: string | null;
  /** A connected host is about to tell what it can do: hosts start their default agent unasked. */
  expected: boolean;
};

export function viewOf(id: string, store: Store, hosts: Hosts): WorkspaceView {
  const records = hosts.all();
  const settings = store.settings();
  const offers = hosts.offers();
  const counts = store.counts();
  const main = mainHost(records);
  return {
    id,
    ...settings,
    root: main?.root ?? null,
    git: main?.git ?? null,
    hosts: records.map((host) => hostView(host, offers, counts.get(host.name) ?? 0)),
    agents: agentsOf(records, offers, settings, Date.now()).map(
      ({ initialize: _, expected: __, ...agent }) => agent,
    ),
    sessions: {
      total: [...counts.values()].reduce((sum, sessions) => sum + sessions, 0),
      items: store.placements(SESSIONS_SHOWN).map(({ session, agent, host }) => ({
        sessionId: session,
        agent,
        host,
        state: host === null ? "waiting" : "placed",
      })),
    },
  };
}

function hostView(host: HostRecord, offers: readonly Offer[], sessions: number): HostView {
  return {
    name: host.name,
    state: host.state,
    root: host.root,
    ...host.about,
    connectedAt: new Date(host.connectedAt).toISOString(),
    lastSeenAt: new Date(host.lastSeenAt).toISOString(),
    load: { sessions, capacity: host.capacity, ...host.load },
    git: host.git,
    agents: offers.filter((offer) => offer.host === host.name).map(({ id }) => id),
  };
}

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
function agentOf(id: string, isDefault: boolean, offers: readonly Offer[], here: ReadonlySet<string>): Agent {
  const able = offers.find(({ initialize, error }) => initialize !== null && error === null);
  const initialize =
    able?.initialize ?? offers.find((offer) => offer.initialize !== null)?.initialize ?? null;
  const untried = offers.some((offer) => offer.initialize === null && offer.error === null);
  return {
    id,
    name: offers[0]?.name ?? id,
    default: isDefault,
    ready: initialize !== null,
    error: able || untried ? null : (offers.find(({ error }) => error !== null)?.error ?? null),
    initialize,
    expected: offers.some((offer) => offer.isDefault && offer.error === null && here.has(offer.host)),
  };
}
