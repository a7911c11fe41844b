import { z } from "zod";
import { CLIENT_ABILITIES } from "./client-abilities.ts";
import { type DialectName, isDialectName } from "./dialects/index.ts";
import { HANDOVER_FIELDS } from "./internal-headers.ts";
import type { Allowance } from "./rpc.ts";

export const ALLOWANCE: z.ZodType<Allowance> = z.object({
  hour: z.number(),
  left: z.partialRecord(z.enum(["sessions", "prompts", "chars", "reserve"]), z.number()),
});

/** The state that a connection keeps of its client, over every transport. */
export const CLIENT_STATE = z.object({
  ...HANDOVER_FIELDS,
  initialized: z.boolean(),
  /** The dialect that the client speaks in place of canonical ACP. */
  dialect: z.custom<DialectName>(isDialectName).nullable(),
  /** Number of the client's last message. */
  sent: z.number().int().nonnegative(),
  /** The part of its subject's quotas that the client may still spend. */
  allowance: ALLOWANCE.optional(),
  /** The methods for files and terminals that the client offers to agents. */
  serves: z.array(z.enum(["read", "write", "terminal"])).optional(),
  /** What the client can show and answer beyond the baseline of ACP. */
  abilities: z.array(z.enum(CLIENT_ABILITIES)).optional(),
  /** The client comes back after it has lost its socket. */
  resumable: z.literal(true).optional(),
  /**
   * The secret from which the ids of the client's sessions are made, where the client may repeat its requests. An
   * earlier build made ids from the connection's id: `hasPublicIds` says that such sessions may exist.
   */
  sessionIds: z.object({ secret: z.string(), hasPublicIds: z.literal(true).optional() }).optional(),
  /** The name by which the client chose its agent with a control frame. */
  agentType: z.string().optional(),
  /** The client closes its sessions when it leaves, as the workspace decided when the client initialized. */
  closes: z.boolean().optional(),
  /** The last session that the client asked for, opened or not. */
  opening: z.string().optional(),
});

export type ClientState = z.infer<typeof CLIENT_STATE>;
