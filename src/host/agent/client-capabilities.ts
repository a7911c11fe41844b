import type { IoServer } from "../../protocol/methods.ts";

/**
 * The capabilities that agents are offered. An agent process is initialized before any client is known, and agents switch
 * features off that they are not offered. So everything is offered that the gateway can honour with any client, or can
 * translate for a client that cannot show it. A test compares this table with the schema of ACP.
 */

type Decision = {
  /** The value that stands for the capability; undefined if no agent is offered it. */
  readonly value?: true | Readonly<Record<string, never>>;
  /** Only agents whose catalogue entry asks for the capability are offered it. */
  readonly onRequest?: true;
  /** The capability stands for files and terminals, which a client may serve in place of the host. */
  readonly io?: true;
  readonly reason: string;
};

const FILES = "The host or a client serves the workspace's files.";
const QUESTIONS = "A question waits for a client that can answer it, as a permission request does.";

/** One decision for each capability of a client in the stable and the unstable schema of ACP v1, by its path. */
export const CAPABILITY_DECISIONS = {
  "fs.readTextFile": { value: true, io: true, reason: FILES },
  "fs.writeTextFile": { value: true, io: true, reason: FILES },
  terminal: {
    value: true,
    io: true,
    onRequest: true,
    reason:
      "An agent on the workspace's machine runs commands itself; editors then show them as the agent's own.",
  },
  "session.configOptions.boolean": {
    value: {},
    reason: "A client that cannot show such an option gets the other ones.",
  },
  "session.notices": { value: {}, reason: "A client that cannot show a notice does not get it." },
  "session.compaction": { value: {}, reason: "A client that cannot show a compaction does not get it." },
  plan: { value: {}, reason: "A client without plan operations gets the whole plan." },
  "elicitation.form": { value: {}, reason: QUESTIONS },
  "elicitation.url": { value: {}, reason: QUESTIONS },
  "_meta.terminal_output": {
    value: true,
    reason: "A client without the convention gets the output of commands as text.",
  },
  "auth.terminal": {
    reason:
      "The login is a program with a terminal for a person to type into. The program has to run on the host, where the agent keeps its login, and no terminal of the host takes input.",
  },
  subagents: {
    reason:
      "Clients that do not know sub-agents would get their updates, for which there is no plainer form yet. Agents that send such updates anyway are served.",
  },
} as const satisfies Readonly<Record<string, Decision>>;

export type CapabilityPath = keyof typeof CAPABILITY_DECISIONS;

const DECISIONS = Object.entries(CAPABILITY_DECISIONS) as [CapabilityPath, Decision][];

/** The capabilities that a catalogue entry may add or leave out. */
export const OFFERABLE = DECISIONS.flatMap(([path, { value }]) => (value === undefined ? [] : path));

/** How the offer to one agent differs from the offer to all, as its catalogue entry says. */
export type OfferChanges = {
  readonly with?: readonly CapabilityPath[] | undefined;
  readonly without?: readonly CapabilityPath[] | undefined;
};

/**
 * The capabilities that an agent is offered. If a client serves the files and terminals, the agent has no other way to
 * them, so its entry does not matter for those.
 */
export function clientCapabilities(io: IoServer, changes: OfferChanges = {}): Record<string, unknown> {
  const offer: Record<string, unknown> = {};
  for (const [path, decision] of DECISIONS)
    if (decision.value !== undefined && isOffered(path, decision, io, changes))
      put(offer, path, decision.value);
  return offer;
}

function isOffered(path: CapabilityPath, decision: Decision, io: IoServer, changes: OfferChanges): boolean {
  if (decision.io && io === "client") return true;
  if (changes.without?.includes(path)) return false;
  return !decision.onRequest || (changes.with?.includes(path) ?? false);
}

function put(offer: Record<string, unknown>, path: string, value: unknown): void {
  const names = path.split(".");
  const last = names.pop() as string;
  let group = offer;
  for (const name of names) {
    group[name] ??= {};
    group = group[name] as Record<string, unknown>;
  }
  group[last] = value;
}
