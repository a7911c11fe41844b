import { z } from "zod";
import { clipMessage } from "../../protocol/clipped-text.ts";
import { LINK_VERSION, OFFER_LIMITS, OLDEST_LINK_VERSION } from "../../protocol/host-wire.ts";
import { isTooComplex } from "../../protocol/json-text.ts";
import { parseJson } from "../../protocol/json-value.ts";

/** The messages of hosts on their control sockets, validated. `protocol/host-wire.ts` explains their fields. */

const count = z.number().int().nonnegative();
const text = z.string().max(OFFER_LIMITS.textChars);
const id = z.string().max(OFFER_LIMITS.idChars);

const OFFERS = z
  .array(
    z.object({
      id,
      name: z.string().max(OFFER_LIMITS.nameChars),
      default: z.boolean(),
      available: z.boolean().optional(),
      reason: text.optional(),
      description: text.optional(),
      version: text.optional(),
      aliases: z.array(id).max(OFFER_LIMITS.aliases).optional(),
    }),
  )
  .max(OFFER_LIMITS.agents);

const HELLO = z.object({
  t: z.literal("hello"),
  version: z.int().min(OLDEST_LINK_VERSION).max(LINK_VERSION),
  name: z.string().min(1).max(200),
  instance: z.string().min(1).max(100),
  root: z.string().max(OFFER_LIMITS.pathChars),
  software: z.object({ version: text, node: text, platform: text }),
  capacity: z.number().int().min(1).max(100_000),
  maxAgents: z.number().int().min(1).max(100_000).optional(),
  isolation: z.string().max(100).optional(),
  draining: z.boolean(),
  agents: OFFERS,
  secrets: z.boolean().optional(),
  runs: z.array(z.object({ sessionId: id, run: id })),
});
export type Hello = z.infer<typeof HELLO>;

/** Long names of files must not keep the rest of the state away. */
const FILES = z
  .array(z.string())
  .max(1000)
  .transform((files) => {
    let chars = 0;
    return files.filter((file) => {
      chars += file.length;
      return chars <= OFFER_LIMITS.modifiedFilesChars;
    });
  });

const GIT = z.object({
  branch: z.string().max(OFFER_LIMITS.textChars).nullable(),
  head: id.nullable(),
  ahead: count.nullable(),
  behind: count.nullable(),
  modifiedFiles: FILES,
  modifiedCount: count,
});

const CONTROL = z.discriminatedUnion("t", [
  HELLO,
  z.object({ t: z.literal("agent"), id, initialize: z.record(z.string(), z.unknown()) }),
  z.object({ t: z.literal("agent_failed"), id, error: z.string().transform(clipMessage) }),
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
  const value = isTooComplex(message) ? undefined : parseJson(message);
  const version = ANY_HELLO.safeParse(value);
  if (version.success && !HELLO.shape.version.safeParse(version.data.version).success)
    return { t: "version", version: version.data.version };
  const checked = CONTROL.safeParse(value);
  return checked.success ? checked.data : undefined;
}

const ANY_HELLO = z.object({ t: z.literal("hello"), version: z.number() });
