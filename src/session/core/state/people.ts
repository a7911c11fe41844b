import { clip } from "../../../protocol/clipped-text.ts";
import type { SessionState } from "./state.ts";
import { STATE_BUDGET } from "./state-budget.ts";

/** The name under which a redacted reader sees a person. */
export type PersonName = (subject: string) => string;

/** A person whom the log does not number: somebody who only looks on, or one of too many. */
export const SOMEBODY = "user";

/** Numbers the people of a session in the order in which the log names them. */
export function countPerson(state: SessionState, subject: string | undefined): void {
  if (subject === undefined || state.people.length >= STATE_BUDGET.people) return;
  const person = clip(subject, STATE_BUDGET.personChars);
  if (!state.people.includes(person)) state.people.push(person);
}

/** A number never changes, because people are only ever added at the end. */
export function personNames({ people }: Pick<SessionState, "people">): PersonName {
  return (subject) => {
    const index = people.indexOf(clip(subject, STATE_BUDGET.personChars));
    return index === -1 ? SOMEBODY : `${SOMEBODY} ${index + 1}`;
  };
}
