/**
 * Where a session's agent runs. Files decide: a session stays with the host it began on, unless all hosts see
 * the same files. Only what has no home yet, or may leave it, goes to the host with the least to do.
 */

/** What the decision needs to know of a host. */
export type Candidate = {
  name: string;
  state: "connected" | "draining" | "gone";
  /** Milliseconds since the epoch: when it was last heard of. */
  lastSeenAt: number;
  /** It said goodbye: nobody expects it back. */
  left: boolean;
  agents: readonly string[];
  /** Sessions that are placed on it. */
  placed: number;
  /** How many it would like to have at most; a weight, not a limit. */
  capacity: number;
  /** How many it takes at most. */
  maxAgents: number | null;
  loadAverage: number;
};

/** A session that needs an agent, and the host that has its files, if it ran anywhere before. */
export type Wish = { agent: string; home: string | null };

type Rules = { sharedFiles: boolean; hostGraceMs: number };

/** The host to use, or what the session waits for, in words for people. */
export type Decision = { host: string } | { waitsFor: string };

export function decide(wish: Wish, hosts: readonly Candidate[], rules: Rules, now: number): Decision {
  // A home that is forgotten is one that nobody waits for any more.
  const home = hosts.find(({ name }) => name === wish.home);
  if (!home) return leastLoaded(wish.agent, hosts);
  const obstacle = obstacleAt(home, wish.agent, rules, now);
  if (obstacle === undefined) return { host: home.name };
  if (obstacle.passes || !rules.sharedFiles) return { waitsFor: `host "${home.name}", ${obstacle.why}` };
  const elsewhere = leastLoaded(
    wish.agent,
    hosts.filter((host) => host !== home),
  );
  return "host" in elsewhere
    ? elsewhere
    : { waitsFor: `host "${home.name}", ${obstacle.why}, or any other that has the agent` };
}

/** Whether a session that waits would get its place if this host were there. */
export function wouldHelp(
  name: string,
  wish: Wish,
  hosts: readonly Candidate[],
  rules: Rules,
  now: number,
): boolean {
  const known = hosts.find((host) => host.name === name);
  // One that never was here may have any agent.
  const agents = known?.agents ?? [wish.agent];
  const there: Candidate = { ...UNUSED, ...known, name, agents, state: "connected" };
  const decision = decide(wish, [...hosts.filter((host) => host !== known), there], rules, now);
  return "host" in decision && decision.host === name;
}

const UNUSED = { lastSeenAt: 0, left: false, placed: 0, capacity: 1, maxAgents: null, loadAverage: 0 };

/** Whether a host has been away for longer than its sessions care to wait. */
export function isOverdue({ state, left, lastSeenAt }: Absence, graceMs: number, now: number): boolean {
  return state === "gone" && (left || lastSeenAt + graceMs <= now);
}

type Absence = Pick<Candidate, "state" | "left" | "lastSeenAt">;

/** Why the home cannot be used now, and whether that is expected to pass by itself. */
function obstacleAt(
  home: Candidate,
  agent: string,
  { hostGraceMs }: Rules,
  now: number,
): { why: string; passes: boolean } | undefined {
  switch (home.state) {
    case "gone": {
      const why = `which is gone since ${new Date(home.lastSeenAt).toISOString()}`;
      return { why, passes: !isOverdue(home, hostGraceMs, now) };
    }
    case "draining":
      return { why: "which is being drained", passes: false };
    case "connected":
      if (!hasRoom(home)) return { why: `which runs ${home.maxAgents} agents, its limit`, passes: false };
      if (home.agents.includes(agent)) return undefined;
      return { why: `which does not offer the agent "${agent}"`, passes: false };
  }
}

function leastLoaded(agent: string, hosts: readonly Candidate[]): Decision {
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
