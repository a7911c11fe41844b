/** Which agents a workspace has, and how to say that one is not among them. */

type Offered = { id: string; available: boolean; reason: string | null };

export function availableIds(agents: readonly Offered[]): string[] {
  return agents.filter(({ available }) => available).map(({ id }) => id);
}

/** Why an agent cannot be had, if so. Before the first host has come nobody knows which there are. */
export function whyNot(agents: readonly Offered[], id: string): string | undefined {
  const agent = agents.find((one) => one.id === id);
  if (agents.length === 0 || agent?.available) return undefined;
  const known = `this workspace has: ${availableIds(agents).join(", ") || "none"}`;
  if (!agent) return `Unknown agent "${id}"; ${known}`;
  return `Agent "${id}" is not available (${agent.reason ?? "no host has it"}); ${known}`;
}
