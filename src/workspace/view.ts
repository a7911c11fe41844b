import type { WorkspaceRow } from "../index/workspace-index.ts";
import { maskGitUrl } from "../protocol/git-url.ts";
import { isoTime } from "../protocol/iso-time.ts";
import type { Limits } from "../protocol/limits.ts";
import { openingRules } from "../protocol/opening-rules.ts";
import type { ContainerView, HostView, WorkspaceView } from "../protocol/rest.ts";
import type { ContainerSettings, Settings } from "../protocol/workspace-settings.ts";
import { agentsOf, mainHost } from "./agents/agents.ts";
import type { Offer } from "./agents/offer.ts";
import { type ContainerState, nextStartAt } from "./container/lifecycle.ts";
import type { IssuedToken } from "./container/minted-token.ts";
import type { HostRecord } from "./hosts/record.ts";
import type { Placement } from "./placement/placements.ts";
import type { WorkspaceIdentity } from "./store.ts";

/** The workspace as readers see it. */

/** How many sessions a view lists. */
export const SESSIONS_SHOWN = 200;

/** The parts of a workspace that its view shows. */
type ViewSource = {
  hosts: readonly HostRecord[];
  offers: readonly Offer[];
  settings: Settings;
  /** The number of sessions per host; the empty name counts those that wait. */
  counts: ReadonlyMap<string, number>;
  placements: readonly Placement[];
  container: ContainerState;
  containerTokens: readonly IssuedToken[];
};

export function viewOf(id: string, source: ViewSource, limits: Limits, now: number): WorkspaceView {
  const { hosts, offers, settings, counts, placements, container } = source;
  const main = mainHost(hosts);
  return {
    id,
    ...settings,
    container: shownContainer(settings.container),
    opening: openingRules(settings),
    root: main?.root ?? null,
    git: main?.git ?? null,
    hosts: hosts.map((host) => hostView(host, offers, counts.get(host.name) ?? 0)),
    agents: agentsOf(hosts, offers, settings, now).map(({ initialize: _, startable: __, ...agent }) => agent),
    containerState:
      settings.container === null ? null : containerView(container, source.containerTokens, limits),
    sessions: {
      total: [...counts.values()].reduce((sum, sessions) => sum + sessions, 0),
      items: placements.map(({ session, agent, host }) => ({
        sessionId: session,
        agent,
        host,
        state: host === null ? "waiting" : "placed",
      })),
    },
  };
}

/** Earlier builds accepted credentials in the repository's address; nobody is shown them. */
function shownContainer(container: ContainerSettings | null): ContainerSettings | null {
  if (!container?.git) return container;
  return { ...container, git: { ...container.git, url: maskGitUrl(container.git.url) } };
}

function containerView(
  container: ContainerState,
  tokens: readonly IssuedToken[],
  limits: Limits,
): ContainerView {
  const { state, since, failures, reason } = container;
  const isWaiting = state === "asleep" && failures > 0;
  return {
    state,
    since: isoTime(since),
    failures,
    reason,
    tokens: tokens.map(({ jti, expires }) => ({ jti, expiresAt: isoTime(expires) })),
    retryAt: isWaiting ? isoTime(nextStartAt(container, limits)) : null,
  };
}

function hostView(host: HostRecord, offers: readonly Offer[], sessions: number): HostView {
  return {
    name: host.name,
    state: host.state,
    root: host.root,
    ...host.about,
    connectedAt: isoTime(host.connectedAt),
    lastSeenAt: isoTime(host.lastSeenAt),
    load: { sessions, capacity: host.capacity, ...host.load },
    git: host.git,
    token: host.token,
    agents: offers.filter((offer) => offer.host === host.name && offer.available).map(({ id }) => id),
  };
}

/** The workspace as the index lists it. */
export function indexRow({ tenant, workspace }: WorkspaceIdentity, view: WorkspaceView): WorkspaceRow {
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
