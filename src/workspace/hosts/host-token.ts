import type { Caller } from "../../protocol/caller.ts";

/** Whose token a host has. `jti` is null for a token without an id, which can be revoked by its subject only. */
export type HostToken = { subject: string; jti: string | null };

export function hostTokenOf({ subject, jti }: Caller): HostToken {
  return { subject, jti: jti ?? null };
}

/** The facts about a join that tell an intruder from a host. */
export type Join = {
  /** The last token of a host with this name; undefined for a new name, null if it was not noted. */
  readonly before: HostToken | null | undefined;
  /** The workspace knows hosts already. */
  readonly hasHosts: boolean;
  /** The workspace itself has issued the token to its container. */
  readonly isIssued: boolean;
  /** The subject of the tokens that the workspace issues. */
  readonly issuedSubject: string;
};

/**
 * Says for people what is unusual about a host that joins; undefined for a usual join. A stolen token shows up here. A
 * new token of the same subject is usual, and so are the first host of a workspace and a new name that its token names.
 */
export function unusualJoin(
  caller: Caller,
  { before, hasHosts, isIssued, issuedSubject }: Join,
): string | undefined {
  if (isIssued) return undefined;
  const { subject, host } = caller;
  if (before === undefined)
    return hasHosts && host === undefined
      ? "no host had this name before, and its token is valid for every name"
      : undefined;
  if (before === null) return undefined;
  if (before.subject !== subject) return `the name was ${before.subject}'s before`;
  // Subjects of issuers differ, except that any issuer may name a host like the workspace's container.
  return subject === issuedSubject
    ? "the name is the container's, and another issuer made its token"
    : undefined;
}
