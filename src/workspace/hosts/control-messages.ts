import { z } from "zod";
import { LINK_VERSION, OFFER_LIMITS } from "../../protocol/host-wire.ts";
import { parseJson } from "../../protocol/json-value.ts";

/** The messages of hosts on their control sockets, validated. `protocol/host-wire.ts` explains their fields. */

const count = z.number().int().nonnegative();
const text = z.string().max(OFFER_LIMITS.textChars);

const OFFERS = z
  .array(
    z.object({
      id: z.string().max(OFFER_LIMITS.idChars),
      name: z.string().max(OFFER_LIMITS.nameChars),
      default: z.boolean(),
      available: z.boolean().optional(),
      reason: text.optional(),
      description: text.optional(),
      version: text.optional(),
    }),
  )
  .max(OFFER_LIMITS.agents);

const HELLO = z.object({
  t: z.literal("hello"),
  version: z.literal(LINK_VERSION),
  name: z.string().min(1).max(200),
  instance: z.string().min(1).max(100),
  root: z.string().max(4096),
  software: z.object({ version: text, node: text, platform: text }),
  capacity: z.number().int().min(1).max(100_000),
  maxAgents: z.number().int().min(1).max(100_000).optional(),
  draining: z.boolean(),
  agents: OFFERS,
  secrets: z.boolean().optional(),
  runs: z.array(z.object({ sessionId: z.string(), run: z.string() })),
});
export type Hello = z.infer<typeof HELLO>;

const GIT = z.object({
  branch: z.string().nullable(),
  head: z.string().nullable(),
  ahead: count.nullable(),
  behind: count.nullable(),
  modifiedFiles: z.array(z.string()).max(1000),
  modifiedCount: count,
});

const CONTROL = z.discriminatedUnion("t", [
  HELLO,
  z.object({ t: z.literal("agent"), id: z.string(), initialize: z.record(z.string(), z.unknown()) }),
  z.object({ t: z.literal("agent_failed"), id: z.string(), error: z.string() }),
  z.object({ t: z.literal("offers"), agents: OFFERS }),
  z.object({ t: z.literal("workspace"), git: GIT.nullable() }),
  z.object({
    t: z.literal("load"),
    runs: count,
    loadAverage: z.number().nonnegative(),
    freeMemory: z.number().nonnegative(),
  }),
  z.object({ t: z.literal("draining") }),
  z.object({ t: z.literal("alive") }),
  z.object({ t: z.literal("renew"), token: z.string() }),
]);

/** `version` stands for the hello of a host with another link version, of which nothing else can be read. */
export type ControlMessage = z.infer<typeof CONTROL> | { t: "version"; version: number };

/** A control message after the host has said hello. */
export type HostReport = Exclude<ControlMessage, { t: "hello" | "version" | "renew" }>;

/** Undefined: the message is malformed. */
export function parseControl(message: string): ControlMessage | undefined {
  const value = parseJson(message);
  const version = ANY_HELLO.safeParse(value);
  if (version.success && version.data.version !== LINK_VERSION)
    return { t: "version", version: version.data.version };
  const checked = CONTROL.safeParse(value);
  return checked.success ? checked.data : undefined;
}

const ANY_HELLO = z.object({ t: z.literal("hello"), version: z.number() });
