import type { Caller } from "../../protocol/caller.ts";
import { mayAnswer, type Role, roleOf } from "../../protocol/caller.ts";
import type { Subscriptions } from "../../protocol/client-subscriptions.ts";

/** Who reads along: kept with the client's cursor while it is attached, and no part of the history. */
export type Presence = {
  readonly subject: string;
  readonly role: Role;
  /** Whether the agent's requests are put to it. */
  readonly answers: boolean;
  readonly subscriptions?: Subscriptions;
  /** It sees the conversation alone. */
  readonly redacted?: true;
  /** Where it has the workspace, if it said so. */
  readonly cwd?: string;
  /** Milliseconds since the epoch. */
  readonly since: number;
};

/** `params` are those of the request that let it in. */
export function presenceOf(
  caller: Caller,
  since: number,
  subscriptions: Subscriptions,
  params?: unknown,
): Presence {
  const cwd = (params as { cwd?: unknown } | null | undefined)?.cwd;
  return {
    subject: caller.subject,
    role: roleOf(caller),
    answers: mayAnswer(caller),
    since,
    subscriptions,
    ...(typeof cwd === "string" && { cwd }),
    ...(caller.redacted && { redacted: true }),
  };
}

/** The same client with other rights. Who sees the conversation alone goes on to do so. */
export function renewed(presence: Presence, caller: Caller): Presence {
  const rights = { role: roleOf(caller), answers: mayAnswer(caller) };
  return { ...presence, ...rights, ...(caller.redacted && { redacted: true }) };
}
