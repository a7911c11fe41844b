import type { z } from "zod";
import type { FactDefinition } from "./facts/definition.ts";
import { PROCESS_FACTS } from "./facts/process-facts.ts";
import { REQUEST_FACTS } from "./facts/request-facts.ts";
import { SESSION_FACTS } from "./facts/session-facts.ts";
import { TURN_FACTS } from "./facts/turn-facts.ts";

/**
 * Every kind of fact that a session can log, once. A new kind needs a row in one of the families; the compiler then asks
 * for its meaning, for the visibility of each field, and for its fold. `docs/events.md` is generated from this table.
 *
 * Rows of the log are trusted to have the form that the catalogue gave them when they were written. A field that is
 * added to a kind of which logs exist has to be optional.
 */
export const FACTS = {
  ...SESSION_FACTS,
  ...TURN_FACTS,
  ...PROCESS_FACTS,
  ...REQUEST_FACTS,
} as const satisfies Readonly<Record<string, FactDefinition>>;

export type FactKind = keyof typeof FACTS;

/** The payload of each kind. */
export type Facts = { readonly [Kind in FactKind]: Readonly<z.infer<(typeof FACTS)[Kind]["payload"]>> };

export function isFactKind(kind: unknown): kind is FactKind {
  return typeof kind === "string" && Object.hasOwn(FACTS, kind);
}
