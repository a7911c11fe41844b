import { OFFER_LIMITS } from "../../protocol/host-wire.ts";
import { type CatalogueEntry, type Need, readCatalogue } from "../catalogue.ts";
import type { OfferChanges } from "./client-capabilities.ts";
import { findInstallation, type Machine } from "./installation.ts";

/** An agent that this host may start. */
export type OfferedAgent = {
  id: string;
  name: string;
  default: boolean;
  /** Empty if the agent is not installed; `missing` then says how to install it. */
  command: readonly string[];
  missing?: string;
  description?: string | undefined;
  version?: string | undefined;
  aliases?: readonly string[] | undefined;
  /** Variables that the agent always receives, with these values. */
  env?: Readonly<Record<string, string>>;
  requires?: readonly Need[] | undefined;
  accepts?: readonly string[] | undefined;
  /** How the capabilities that the agent is offered differ from those that all agents are. */
  offers?: OfferChanges | undefined;
  /** The agent receives the host's whole environment, except the variables that configure the host. */
  inherits?: true;
};

/** The options of the command line that concern agents. */
export type AgentOptions = {
  /** A command that becomes the agent `custom`. */
  agent?: readonly string[] | undefined;
  /** Ids of the agents that the host may start; absent: all agents of the catalogue. */
  agents?: readonly string[] | undefined;
  /** Id of the agent for clients that name none. */
  defaultAgent?: string | undefined;
  /** A file whose entries extend the built-in catalogue. */
  catalogue?: string | undefined;
};

const CUSTOM = "custom";
const DEMO = "demo";

/** Throws if the options name an agent that is not in the catalogue. */
export function offeredAgents(options: AgentOptions, machine: Machine): OfferedAgent[] {
  const { agent: command, agents: allowed } = options;
  const catalogue = readCatalogue(options.catalogue);
  const ids = [...(command ? [CUSTOM] : []), ...(allowed ?? catalogue.map(({ id }) => id))];
  const defaultId = options.defaultAgent ?? (command ? CUSTOM : (allowed?.[0] ?? DEMO));
  if (!ids.includes(defaultId))
    throw new Error(`the default agent ${defaultId} is not among ${ids.join(", ")}`);
  if (ids.length > OFFER_LIMITS.agents)
    throw new Error(
      `the catalogue has ${ids.length} agents: choose at most ${OFFER_LIMITS.agents} with --agents`,
    );
  return [...new Set(ids)].map((id) => {
    const isDefault = id === defaultId;
    if (command && id === CUSTOM)
      return {
        id,
        name: command.join(" "),
        command,
        default: isDefault,
        inherits: true,
        // Nobody knows how the program runs commands.
        offers: { with: ["terminal"] },
      };
    const entry = catalogue.find((known) => known.id === id);
    if (!entry)
      throw new Error(
        `there is no agent ${id}; the catalogue has ${catalogue.map((known) => known.id).join(", ")}`,
      );
    return { ...fromEntry(entry, machine), default: isDefault };
  });
}

function fromEntry(entry: CatalogueEntry, machine: Machine): Omit<OfferedAgent, "default"> {
  const { id, name, version, description, requires, accepts, aliases, offers } = entry;
  return {
    id,
    name,
    version,
    description,
    requires,
    accepts,
    aliases,
    offers,
    command: [],
    ...findInstallation(entry, machine),
  };
}
