import { type Allowed, blank, members } from "../../../../protocol/allow-list.ts";
import { recordOf } from "../../../../protocol/json-value.ts";
import { FACTS, isFactKind } from "../../events/catalogue.ts";
import type { FrameEvent, LogEvent } from "../../events/event.ts";
import { PERSON } from "../../events/visible-parts.ts";
import type { PersonName } from "../../state/people.ts";

/** The part of an event's payload that may be shown, as the catalogue says; nothing of a kind it does not know. */
export function payloadOf(
  { kind, payload }: Exclude<LogEvent, FrameEvent>,
  personName?: PersonName,
): Allowed {
  if (!isFactKind(kind)) return NOTHING;
  const visible = VISIBLE.get(kind) ?? NOTHING;
  const people = personName === undefined ? undefined : PEOPLE.get(kind);
  if (personName === undefined || people === undefined) return visible;
  const names = people.flatMap((field) => {
    const subject = recordOf(payload)[field];
    return typeof subject === "string" ? [[field, blank(JSON.stringify(personName(subject)))]] : [];
  });
  return members({ ...visible.members, ...Object.fromEntries(names) });
}

const NOTHING = members({});

/** The fields of each kind of event that name a person. */
const PEOPLE: ReadonlyMap<string, readonly string[]> = new Map(
  Object.entries(FACTS).flatMap(([kind, { visible }]) => {
    const fields = Object.entries(visible).flatMap(([field, rule]) => (rule === PERSON ? [field] : []));
    return fields.length === 0 ? [] : [[kind, fields] as const];
  }),
);

const VISIBLE: ReadonlyMap<string, ReturnType<typeof members>> = new Map(
  Object.entries(FACTS).map(([kind, { visible }]) => {
    const fields = Object.entries(visible).flatMap(([field, rule]) =>
      rule === "hidden" ? [] : [[field, rule]],
    );
    return [kind, members(Object.fromEntries(fields))];
  }),
);
