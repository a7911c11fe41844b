import { type Allowed, members } from "../../../../protocol/allow-list.ts";
import { FACTS, isFactKind } from "../../events/catalogue.ts";

/** The part of an event's payload that may be shown, as the catalogue says; nothing of a kind it does not know. */
export function payloadOf(kind: string): Allowed {
  return isFactKind(kind) ? (VISIBLE.get(kind) ?? NOTHING) : NOTHING;
}

const NOTHING = members({});

const VISIBLE: ReadonlyMap<string, Allowed> = new Map(
  Object.entries(FACTS).map(([kind, { visible }]) => {
    const fields = Object.entries(visible).flatMap(([field, rule]) =>
      rule === "hidden" ? [] : [[field, rule]],
    );
    return [kind, members(Object.fromEntries(fields))];
  }),
);
