import { z } from "zod";
import { AFTER } from "./rest.ts";
import type { RevocationReach } from "./revocation-reach.ts";
import type { RevocationKind } from "./rpc.ts";

/** The part of the REST API that concerns a whole tenant: revocations and the audit log. */

/** A name of 500 characters, and its issuer's alias. */
const REVOKED_VALUE = z.string().min(1).max(750);
/** Only tokens that are valid in this workspace and nowhere else are revoked. */
const IN_WORKSPACE = { workspace: z.string().min(1).max(200).optional() };
const UNTIL = {
  until: z.iso
    .datetime({ offset: true })
    .refine((time) => Date.parse(time) > Date.now(), "that is in the past")
    .optional(),
};

export const REVOCATION_REQUEST = z.union(
  [
    z.strictObject({ jti: REVOKED_VALUE, ...IN_WORKSPACE, ...UNTIL }),
    z.strictObject({ subject: REVOKED_VALUE, ...IN_WORKSPACE, ...UNTIL }),
    z.strictObject({ session: REVOKED_VALUE, ...UNTIL }),
  ],
  "Give one of jti, subject and session; until, if given, is the time the revocation ends; workspace, if given with jti or subject, is where it holds",
);

export type Revocation = {
  id: string;
  kind: RevocationKind;
  value: string;
  /** The workspace of the session, or the workspace whose own tokens are revoked; null: the whole tenant. */
  workspace: string | null;
  /** The subject who made the revocation, and when. */
  by: string;
  at: string;
  /** When the revocation ends; null: when it is lifted. */
  until: string | null;
};
export type RevocationList = { revocations: Revocation[] };

/** The response to the order. */
export type CreatedRevocation = Revocation & { reached: RevocationReach };

export const AUDIT_QUERY = z.object({
  after: AFTER,
  limit: z.coerce.number().int().min(1).max(1000).default(100),
  kind: z.string().max(100).optional(),
});
export type AuditEntry = {
  seq: number;
  at: string;
  kind: string;
  subject: string;
  workspace: string | null;
  session: string | null;
  detail: unknown;
};
/** Pass `next` as `after` to get the next page; null after the last page. */
export type AuditPage = { entries: AuditEntry[]; next: number | null };
