import type { AgentName } from "./installed.ts";

/**
 * Scenarios that fail today, each with the reason. A scenario that passes and is still here fails, so no entry outlives
 * its reason.
 */
export const PENDING: { agent: AgentName; scenario: string; reason: string }[] = [];
