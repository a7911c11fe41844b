import { z } from "zod";
import { LINK_VERSION, OFFER_LIMITS } from "../../protocol/host-wire.ts";
import { parseJson } from "../../protocol/json-value.ts";

/** What hosts say on their control socket, checked. */

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
  /** It has secrets that it would have to forget should there be none any more. */
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

/** `version`: a hello from a host that speaks another link, which is all that can be said of it. */
export type Control = z.infer<typeof CONTROL> | { t: "version"; version: number };

export function parseControl(message: string): Control | undefined {
  const value = parseJson(message);
  const version = FOREIGN.safeParse(value);
  if (version.success && version.data.version !== LINK_VERSION)
    return { t: "version", version: version.data.version };
  const checked = CONTROL.safeParse(value);
  return checked.success ? checked.data : undefined;
}

const FOREIGN = z.object({ t: z.literal("hello"), version: z.number() });
