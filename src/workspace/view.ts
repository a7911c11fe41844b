import type { WorkspaceRow } from "../index/workspace-index.ts";
import type { GitState, HostLoad } from "../protocol/host-wire.ts";
import type { Settings } from "../protocol/workspace-settings.ts";
import { type AgentInfo, agentsOf, mainHost } from "./agents/agents.ts";
import { type Life, retryAt } from "./container/lifecycle.ts";
import type { HostRecord, Offer } from "./hosts/record.ts";
import type { Hosts } from "./hosts/registry.ts";
import type { Identity, Store } from "./store.ts";

/** The workspace as readers see it. */

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
  /** The container, if it is to have one; why it failed the last time it did, and when it may be tried again. */
  containerState: ContainerState | null;
  /** Sessions that have an agent process or wait for one; at most so many of them are listed. */
  sessions: { total: number; items: SessionPlace[] };
} & Settings;

export type ContainerState = {
  state: Life["state"];
  since: string;
  failures: number;
  reason: string | null;
  retryAt: string | null;
};

export type SessionPlace = {
  sessionId: string;
  agent: string;
  host: string | null;
  state: "placed" | "waiting";
};

const SESSIONS_SHOWN = 200;

export function viewOf(id: string, store: Store, hosts: Hosts, life: Life): WorkspaceView {
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
      ({ initialize: _, startable: __, ...agent }) => agent,
    ),
    containerState: settings.container === null ? null : containerState(life),
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

function containerState(life: Life): ContainerState {
  const { state, since, failures, reason } = life;
  return {
    state,
    since: new Date(since).toISOString(),
    failures,
    reason,
    retryAt: state === "asleep" && failures > 0 ? new Date(retryAt(life)).toISOString() : null,
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
    agents: offers.filter((offer) => offer.host === host.name && offer.available).map(({ id }) => id),
  };
}

/** The workspace as the index lists it. */
export function indexRow({ tenant, workspace }: Identity, view: WorkspaceView): WorkspaceRow {
  return {
    tenant,
    id: workspace,
    name: view.name,
    root: view.root,
    branch: view.git?.branch ?? null,
    defaultAgent: view.agents.find((agent) => agent.default)?.id ?? view.defaultAgent,
    hosts: view.hosts.filter(({ state }) => state !== "gone").length,
  };
}
