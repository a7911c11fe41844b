import type { z } from "zod";
import type { FactDefinition } from "./facts/definition.ts";
import { PROCESS_FACTS } from "./facts/process-facts.ts";
import { REQUEST_FACTS } from "./facts/request-facts.ts";
import { SESSION_FACTS } from "./facts/session-facts.ts";
import { TURN_FACTS } from "./facts/turn-facts.ts";

/**
 * Every kind of fact a session can log, once. A new kind needs a row in one of the families; the compiler then asks
 * for its meaning, for the visibility of each field, and for its fold. `docs/events.md` is written from this table.
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

export function isFactKind(kind: string): kind is FactKind {
  return Object.hasOwn(FACTS, kind);
}

/** For the end of a chain that has to know every kind. */
export function assertNever(value: never): never {
  throw new Error(`Not covered: ${JSON.stringify(value)}`);
}
