import { z } from "zod";
import type { Allowed } from "../../../../protocol/allow-list.ts";
import type { WebhookMessageType } from "../../../../protocol/webhook-messages.ts";

/** How a reader that may see the conversation but no tool data sees one field of a payload. */
export type Visibility = Allowed | "hidden";

/**
 * When the fact changes the session's line in the index: `now`, because somebody is looking for it; `soon`, together
 * with whatever else happens meanwhile; `with-requests`, now if the set of open permission requests and questions
 * has changed, else soon.
 */
export type Listing = "now" | "with-requests" | "soon" | "never";

/** Everything about a kind of fact besides its payload. */
export type FactTraits = {
  /** One sentence for `docs/events.md`. */
  readonly meaning: string;
  /** The writer, as events name it in `source`. */
  readonly source: "gateway" | "host" | "host or gateway";
  readonly listed: Listing;
  /** The payload field with the sequence number of the prompt that the fact belongs to. */
  readonly prompt?: "prompt" | "seq";
  /** The status that the fact gives its turn. */
  readonly turn?: "running" | "completed" | "cancelled" | "failed";
  /** The webhook message that may come of the fact. */
  readonly webhook?: WebhookMessageType;
  /** The agent can be ready after this fact. */
  readonly opensAgentSession?: true;
  /** The session can be without a process, and want none, after this fact. */
  readonly freesPlacement?: true;
  /** The host is told to end the process, for this reason. */
  readonly stopsProcess?: string;
  /** The next request of the agent to time out may be another one after this fact. */
  readonly movesTimeout?: true;
};

/** A kind of fact: its traits, the schema of its payload, and who sees which field. */
export type FactDefinition<Shape extends z.ZodRawShape = z.ZodRawShape> = FactTraits & {
  readonly payload: z.ZodObject<Shape>;
  readonly visible: { readonly [Field in keyof Shape]: Visibility };
};

/** Declares a kind. A field without an entry in `visible` does not compile. */
export function fact<const Shape extends z.ZodRawShape>({
  payload,
  ...traits
}: FactTraits & {
  readonly payload: Shape;
  readonly visible: { readonly [Field in keyof Shape]: Visibility };
}): FactDefinition<Shape> {
  return { ...traits, payload: z.object(payload) };
}

/** Fields that are shown as they are. */
export function shown<const Field extends string>(...fields: Field[]): Record<Field, "scalar"> {
  return Object.fromEntries(fields.map((field) => [field, "scalar"])) as Record<Field, "scalar">;
}

/** Fields that are left out. */
export function hidden<const Field extends string>(...fields: Field[]): Record<Field, "hidden"> {
  return Object.fromEntries(fields.map((field) => [field, "hidden"])) as Record<Field, "hidden">;
}

/**
 * Field types that several families share. Fields that an imported log may lack are nullable: our own writers have to
 * state them, and the reader of foreign lines fills in null.
 */
export const TEXT = z.string();
export const TEXT_OR_NULL = z.string().nullable();
/** A sequence number of this log. */
export const SEQ = z.number();
export const NUMBER_OR_NULL = z.number().nullable();
/** The event was made from a record of the past that had no events. */
export const SYNTHETIC = z.literal(true).optional();
