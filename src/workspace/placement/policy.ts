import { isoTime } from "../../protocol/iso-time.ts";
/**
 * The placement policy: on which host a session's agent runs. Files decide: a session stays with the host it began
 * on, unless all hosts share the same files. A session without a home, or one that may leave its home, goes to the
 * least loaded host.
 */

/** The facts about a host that the policy needs. */
export type Candidate = {
  name: string;
  state: "connected" | "draining" | "gone";
  /** Milliseconds since the epoch. */
  lastSeenAt: number;
  /** The host said goodbye: nobody expects it back. */
  hasLeft: boolean;
  agents: readonly string[];
  /** How many sessions are placed on the host. */
  placed: number;
  /** How many sessions the host prefers to have at most: a weight, not a limit. */
  capacity: number;
  /** How many sessions the host accepts at most. */
  maxAgents: number | null;
  loadAverage: number;
};

/** A session that needs an agent; `home` is the host that has the session's files, if it has run before. */
type WaitingSession = { agent: string; home: string | null };

type Rules = { sharedFiles: boolean; hostGraceMs: number };

/** The host to use, or what the session waits for, in words for people. */
export type PlacementDecision = { host: string } | { waitsFor: string };

export function choosePlacement(
  session: WaitingSession,
  hosts: readonly Candidate[],
  rules: Rules,
  now: number,
): PlacementDecision {
  // The workspace forgets a home only after nobody waits for it any more.
  const home = hosts.find(({ name }) => name === session.home);
  if (!home) return leastLoaded(session.agent, hosts);
  const obstacle = obstacleAt(home, session.agent, rules, now);
  if (obstacle === undefined) return { host: home.name };
  if (obstacle.isTemporary || !rules.sharedFiles)
    return { waitsFor: `host "${home.name}", ${obstacle.reason}` };
  const elsewhere = leastLoaded(
    session.agent,
    hosts.filter((host) => host !== home),
  );
  return "host" in elsewhere
    ? elsewhere
    : { waitsFor: `host "${home.name}", ${obstacle.reason}, or any other that has the agent` };
}

/** Whether a waiting session would be placed on this host if the host were connected. */
export function wouldHelp(
  name: string,
  session: WaitingSession,
  hosts: readonly Candidate[],
  rules: Rules,
  now: number,
): boolean {
  const known = hosts.find((host) => host.name === name);
  // A host that has never connected may have any agent.
  const agents = known?.agents ?? [session.agent];
  const connected: Candidate = { ...UNUSED, ...known, name, agents, state: "connected" };
  const others = hosts.filter((host) => host !== known);
  const decision = choosePlacement(session, [...others, connected], rules, now);
  return "host" in decision && decision.host === name;
}

const UNUSED = { lastSeenAt: 0, hasLeft: false, placed: 0, capacity: 1, maxAgents: null, loadAverage: 0 };

/** Whether a host is gone for longer than the grace period, or for good. */
export function isOverdue({ state, hasLeft, lastSeenAt }: Absence, graceMs: number, now: number): boolean {
  return state === "gone" && (hasLeft || lastSeenAt + graceMs <= now);
}

type Absence = Pick<Candidate, "state" | "hasLeft" | "lastSeenAt">;

/** Why the home cannot run the agent now, and whether the obstacle is expected to pass by itself. */
function obstacleAt(
  home: Candidate,
  agent: string,
  { hostGraceMs }: Rules,
  now: number,
): { reason: string; isTemporary: boolean } | undefined {
  switch (home.state) {
    case "gone": {
      const reason = `which has been gone since ${isoTime(home.lastSeenAt)}`;
      return { reason, isTemporary: !isOverdue(home, hostGraceMs, now) };
    }
    case "draining":
      return { reason: "which is being drained", isTemporary: false };
    case "connected":
      if (!hasRoom(home))
        return { reason: `which runs ${home.maxAgents} agents, its limit`, isTemporary: false };
      if (home.agents.includes(agent)) return undefined;
      return { reason: `which does not offer the agent "${agent}"`, isTemporary: false };
  }
}

function leastLoaded(agent: string, hosts: readonly Candidate[]): PlacementDecision {
  const connected = hosts.filter(({ state }) => state === "connected");
  const offering = connected.filter(({ agents }) => agents.includes(agent));
  const [best] = offering.filter(hasRoom).sort(byLoad);
  if (best) return { host: best.name };
  if (offering.length > 0) return { waitsFor: "a host with room for another agent" };
  return { waitsFor: connected.length === 0 ? "a host" : `a host that offers the agent "${agent}"` };
}

function hasRoom({ placed, maxAgents }: Candidate): boolean {
  return maxAgents === null || placed < maxAgents;
}

function byLoad(a: Candidate, b: Candidate): number {
  return (
    share(a) - share(b) || a.loadAverage - b.loadAverage || (a.name < b.name ? -1 : a.name > b.name ? 1 : 0)
  );
}

function share({ placed, capacity }: Candidate): number {
  return placed / Math.max(1, capacity);
}
