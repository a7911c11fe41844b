import type { Caller } from "../../protocol/caller.ts";
import { type Refused, refused } from "../../protocol/refusal.ts";

/**
 * The places that a session has for readers of one kind, and how many of them bearers of links may take, and one subject
 * where that is bounded.
 */
export type Places = { readonly all: number; readonly byLink: number; readonly bySubject?: number };

/**
 * The refusal when all places are taken. Bearers of links have a part of the places, so that they cannot keep out the
 * workspace's own callers. The owner of a session is never kept out.
 */
export function placeRefusal(
  caller: Caller,
  owner: string | undefined,
  taken: Places,
  places: Places,
  kind: string,
): Refused | undefined {
  if (isByLink(caller)) {
    if (taken.byLink < places.byLink && taken.all < places.all) return undefined;
    return refused({
      reason: "too-many",
      message: `A session has at most ${places.byLink} ${kind} by links`,
    });
  }
  if (caller.subject === owner) return undefined;
  if (places.bySubject !== undefined && (taken.bySubject ?? 0) >= places.bySubject)
    return refused({
      reason: "too-many",
      message: `One user has at most ${places.bySubject} ${kind} of a session`,
    });
  if (taken.all < places.all) return undefined;
  return refused({ reason: "too-many", message: `A session has at most ${places.all} ${kind}` });
}

export function isByLink({ session }: Pick<Caller, "session">): boolean {
  return session !== undefined;
}
