import { type Caller, onlyWorkspace } from "./caller.ts";

/**
 * The creator of a share, an answer link or a webhook, which work without the creator's token. A revocation of the
 * subject or of the token ends or pauses them.
 */
export type Maker = {
  readonly subject: string;
  /** The id of the token that was used; null for a token without an id. */
  readonly jti: string | null;
  /** The only workspace in which the token was valid; null if there were others. */
  readonly workspace: string | null;
};

export function makerOf(caller: Caller): Maker {
  const { subject, jti = null } = caller;
  return { subject, jti, workspace: onlyWorkspace(caller) ?? null };
}
