import { FACTS, type FactKind, isFactKind } from "./catalogue.ts";
import type { EventBase, FactEvent, ForeignEvent, Payload } from "./event.ts";

/**
 * The event that a line from elsewhere states. This is the one place that is lenient about payloads: a field that is
 * missing or of another type is left out where the catalogue lets it be absent, and null where that is allowed. A line
 * without a field that its kind cannot do without stays foreign.
 */
export function readFact(base: EventBase, kind: string, payload: Payload): FactEvent | ForeignEvent {
  const known = isFactKind(kind) ? normalised(kind, payload, base.context.turnId) : undefined;
  if (!known) return { ...base, kind, payload, foreign: true };
  // `normalised` has checked each field against the schema of this kind.
  return { ...base, kind, payload: known } as FactEvent;
}

/** The payload itself if nothing is wrong with it, so that our own lines come out byte for byte. */
function normalised(kind: FactKind, payload: Payload, turnId: string | null): Payload | undefined {
  let changed: Record<string, unknown> | undefined;
  for (const [field, schema] of Object.entries(FACTS[kind].payload.shape)) {
    if (schema.safeParse(payload[field]).success) continue;
    changed ??= { ...payload };
    if (schema.safeParse(undefined).success) delete changed[field];
    else if (schema.safeParse(null).success) changed[field] = null;
    // Other systems name the turn in the envelope alone.
    else if (field === "turnId" && turnId !== null) changed[field] = turnId;
    else return undefined;
  }
  return changed ?? payload;
}
