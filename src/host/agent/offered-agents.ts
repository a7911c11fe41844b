import { type CatalogueEntry, type Need, readCatalogue } from "../catalogue.ts";
import { findInstallation, type Machine } from "./installation.ts";

/** An agent this host may start. */
export type OfferedAgent = {
  id: string;
  name: string;
  default: boolean;
  /** Empty if it is not installed; `missing` then says what to do. */
  command: readonly string[];
  missing?: string;
  description?: string | undefined;
  version?: string | undefined;
  /** Variables with these values, always. */
  env?: Readonly<Record<string, string>>;
  requires?: readonly Need[] | undefined;
  accepts?: readonly string[] | undefined;
  /** It gets all of the host's environment but what is the host's own. */
  inherits?: true;
};

/** What the command line says about agents. */
export type AgentOptions = {
  /** A command of its own, with the id `custom`. */
  agent?: readonly string[] | undefined;
  /** Ids of those it may start; absent: all in the catalogue. */
  agents?: readonly string[] | undefined;
  /** Id of the one that is used when nobody asks for another. */
  defaultAgent?: string | undefined;
  /** A file that adds to the catalogue. */
  catalogue?: string | undefined;
};

const CUSTOM = "custom";
const DEMO = "demo";
/** What the gateway takes from one host. */
const AGENTS_MAX = 100;

/** Throws if the options name an agent that is not in the catalogue. */
export function offeredAgents(options: AgentOptions, machine: Machine): OfferedAgent[] {
  const { agent: command, agents: allowed } = options;
  const catalogue = readCatalogue(options.catalogue);
  const ids = [...(command ? [CUSTOM] : []), ...(allowed ?? catalogue.map(({ id }) => id))];
  const chosen = options.defaultAgent ?? (command ? CUSTOM : (allowed?.[0] ?? DEMO));
  if (!ids.includes(chosen)) throw new Error(`the default agent ${chosen} is not among ${ids.join(", ")}`);
  if (ids.length > AGENTS_MAX)
    throw new Error(`the catalogue has ${ids.length} agents: choose at most ${AGENTS_MAX} with --agents`);
  return [...new Set(ids)].map((id) => {
    const isDefault = id === chosen;
    if (command && id === CUSTOM)
      return { id, name: command.join(" "), command, default: isDefault, inherits: true };
    const entry = catalogue.find((one) => one.id === id);
    if (!entry)
      throw new Error(`there is no agent ${id}; there are ${catalogue.map((one) => one.id).join(", ")}`);
    return { ...fromEntry(entry, machine), default: isDefault };
  });
}

function fromEntry(entry: CatalogueEntry, machine: Machine): Omit<OfferedAgent, "default"> {
  const { id, name, version, description, requires, accepts } = entry;
  return {
    id,
    name,
    version,
    description,
    requires,
    accepts,
    command: [],
    ...findInstallation(entry, machine),
  };
}
