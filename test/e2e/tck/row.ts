import type { Candidate } from "./candidate.ts";

/**
 * A row of the ACP compatibility kit, version 1. Ids and tiers are those of the kit
 * (https://github.com/EugeneTheDev/acp-tck); the sentence and the check are our own.
 */
export type Row = {
  id: `ACP-${string}`;
  /** How much the protocol asks for it. An informational row reports and asserts nothing of its own. */
  tier: "mandatory" | "capability" | "advisory" | "informational";
  requires: string;
  /** The capability of the agent, as a path in `agentCapabilities`, without which the row is skipped. */
  capability?: string;
  /** A text that it resolves to is an observation for the report. */
  check(candidate: Candidate): Promise<unknown>;
};
