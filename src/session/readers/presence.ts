import type { Caller } from "../../protocol/caller.ts";
import { mayAnswer, type Role, roleOf } from "../../protocol/caller.ts";
import type { Subscriptions } from "../../protocol/client-subscriptions.ts";
import { recordOf } from "../../protocol/json-value.ts";
import { pathOf } from "../../protocol/reader-messages.ts";
import { isByLink } from "./places.ts";

/** A client as it appears to others, while it is attached. Presence is no part of the history. */
export type Presence = {
  readonly subject: string;
  readonly role: Role;
  /** Whether the client gets the agent's requests. */
  readonly answers: boolean;
  readonly subscriptions?: Subscriptions;
  /** The client came by a share link. */
  readonly link?: true;
  /** The client sees the conversation only. */
  readonly redacted?: true;
  /** The directory of the workspace on the client's side, if the client named it. */
  readonly cwd?: string;
  /** Milliseconds since the epoch. */
  readonly since: number;
};

/** The presence of a client; `params` are those of the request that attached it. */
export function presenceOf(
  caller: Caller,
  since: number,
  subscriptions: Subscriptions,
  params?: unknown,
): Presence {
  const cwd = pathOf(recordOf(params).cwd);
  return {
    subject: caller.subject,
    role: roleOf(caller),
    answers: mayAnswer(caller),
    since,
    subscriptions,
    ...(cwd !== undefined && { cwd }),
    ...(isByLink(caller) && { link: true }),
    ...(caller.redacted && { redacted: true }),
  };
}

/** The presence of a client with another token. A client that sees the conversation only continues to do so. */
export function renewPresence(presence: Presence, caller: Caller): Presence {
  const rights = { role: roleOf(caller), answers: mayAnswer(caller) };
  return { ...presence, ...rights, ...(caller.redacted && { redacted: true }) };
}
