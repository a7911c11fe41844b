/** Which agents of a workspace can be used, and why an agent cannot. */

type OfferedAgent = {
  id: string;
  available: boolean;
  reason: string | null;
  aliases?: readonly string[] | undefined;
};

/** The agent with this id or, if there is none, this alias. */
export function agentNamed<Agent extends Pick<OfferedAgent, "id" | "aliases">>(
  agents: readonly Agent[],
  name: string,
): Agent | undefined {
  return agents.find(({ id }) => id === name) ?? agents.find(({ aliases }) => aliases?.includes(name));
}

export function availableIds(agents: readonly OfferedAgent[]): string[] {
  return agents.filter(({ available }) => available).map(({ id }) => id);
}

/**
 * Why the agent cannot be used; undefined if it can. Before the first host has connected the workspace knows of no
 * agents, so every agent may still become available.
 */
export function unavailableReason(agents: readonly OfferedAgent[], id: string): string | undefined {
  const agent = agentNamed(agents, id);
  if (agents.length === 0 || agent?.available) return undefined;
  const known = `this workspace has: ${availableIds(agents).join(", ") || "none"}`;
  if (!agent) return `Unknown agent "${id}"; ${known}`;
  return `Agent "${id}" is not available (${agent.reason ?? "no host has it"}); ${known}`;
}
