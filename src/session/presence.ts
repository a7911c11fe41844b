import type { Caller } from "../protocol/caller.ts";
import { mayAnswer, type Role, roleOf } from "../protocol/caller.ts";

/** Who reads along: kept with the client's cursor while it is attached, and no part of the history. */
export type Presence = {
  readonly subject: string;
  readonly role: Role;
  /** Whether the agent's requests are put to it. */
  readonly answers: boolean;
  /** Milliseconds since the epoch. */
  readonly since: number;
};

export function presenceOf(caller: Caller, since: number): Presence {
  return { subject: caller.subject, role: roleOf(caller), answers: mayAnswer(caller), since };
}
