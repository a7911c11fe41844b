import { type AgentOffer, OFFER_LIMITS } from "../../protocol/host-wire.ts";
import type { AgentEnvironment } from "./agent-environment.ts";
import type { OfferedAgent } from "./offered-agents.ts";

/** Lists of agents show descriptions and versions in full, so they are shorter than the gateway allows. */
const DESCRIPTION_CHARS = 500;
const VERSION_CHARS = 100;

/** The agents of this host as the gateway lists them: without secrets, and with the reason why one is unavailable. */
export function agentOffers(agents: readonly OfferedAgent[], environment: AgentEnvironment): AgentOffer[] {
  return agents.map((agent) => {
    const { id, name, default: isDefault, description, version, aliases } = agent;
    const reason = environment.unavailableReason(agent);
    return {
      id,
      name: environment.redact(name).slice(0, OFFER_LIMITS.nameChars),
      default: isDefault,
      available: reason === undefined,
      ...(reason !== undefined && { reason: reason.slice(0, OFFER_LIMITS.textChars) }),
      ...(description !== undefined && { description: description.slice(0, DESCRIPTION_CHARS) }),
      ...(version !== undefined && { version: version.slice(0, VERSION_CHARS) }),
      ...(aliases !== undefined && { aliases }),
    };
  });
}
