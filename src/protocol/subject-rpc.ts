import type { Caller } from "./caller.ts";
import { isHost } from "./caller.ts";
import { makerOf } from "./maker.ts";
import type { Allowance, Amounts } from "./rpc.ts";

/** The contracts of the object that keeps one person of a tenant: the subject's sockets, quotas and revocations. */

/** A token as its subject's object knows it. */
export type SubjectToken = {
  readonly tenant: string;
  readonly subject: string;
  /** Null for a token without an id, which can be revoked by its subject only. */
  readonly jti: string | null;
  /** The only workspace in which the token is valid; null if there may be others. */
  readonly workspace: string | null;
  /** Seconds since the epoch. */
  readonly expires: number;
  /** A host's token: the workspace ends the sockets that the host has opened with it. */
  readonly isHost?: true | undefined;
};

/** A token of a host, by which a workspace and its sessions find the sockets that it has opened. */
export type HostTokenName = { readonly subject: string; readonly jti: string | null };

/** `registered`: the subject's object counts the socket until `leaseUntil`, in milliseconds since the epoch. */
export type EntryResult =
  | { readonly result: "registered"; readonly leaseUntil: number; readonly allowance?: Allowance }
  | { readonly result: "revoked" }
  /** The subject has as many sockets as it may have. */
  | { readonly result: "too-many" };

/** A revocation of a subject or of one of its tokens. `until` is in milliseconds since the epoch. */
export type SubjectRevocation = {
  readonly kind: "subject" | "jti";
  readonly value: string;
  readonly workspace: string | null;
  readonly until: number | null;
};

/** All revocations about one subject. Of two lists, the one with the higher revision is the later one. */
export type SubjectRevocations = {
  readonly revision: number;
  readonly revocations: readonly SubjectRevocation[];
};

/** The tenant's answer about a token that it has added to its list. `isValid`: the link of a share's bearer works. */
export type NotedToken = SubjectRevocations & {
  readonly isValid: boolean;
  /** Some subjects have yet to learn of changes of their revocations. */
  readonly isReporting?: true;
  /** Quotas that the previous release, whose tenants counted, has given the subject. Removable one release later. */
  readonly given?: { readonly hour: number; readonly amounts: Amounts };
};

/** From the tenant: the revocations about the subject have changed. */
export type SubjectOrder = SubjectRevocations & {
  readonly tenant: string;
  readonly subject: string;
  /** Everything that the subject has open ends, whatever the revocations say: a share was removed. */
  readonly endsAll?: boolean;
  /** How long to wait for the objects that hold the subject's sockets. */
  readonly waitMs: number;
};

/** The reach of an order: how many sockets it has ended, and how many objects have not confirmed yet. */
export type SubjectReach = {
  readonly sockets: number;
  readonly hosts: number;
  readonly unconfirmed: number;
};

export function subjectTokenOf(caller: Caller): SubjectToken {
  const { tenant, expires } = caller;
  return { tenant, ...makerOf(caller), expires, ...(isHost(caller) && { isHost: true }) };
}
