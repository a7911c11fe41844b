import type { Caller } from "../protocol/caller.ts";
import { mayAnswer, type Role, roleOf } from "../protocol/caller.ts";
import type { Hears } from "../protocol/news.ts";

/** Who reads along: kept with the client's cursor while it is attached, and no part of the history. */
export type Presence = {
  readonly subject: string;
  readonly role: Role;
  /** Whether the agent's requests are put to it. */
  readonly answers: boolean;
  readonly hears?: Hears;
  /** Milliseconds since the epoch. */
  readonly since: number;
};

export function presenceOf(caller: Caller, since: number, hears: Hears): Presence {
  return { subject: caller.subject, role: roleOf(caller), answers: mayAnswer(caller), since, hears };
}

/** The same client with other rights. */
export function renewed(presence: Presence, caller: Caller): Presence {
  return { ...presence, role: roleOf(caller), answers: mayAnswer(caller) };
}
