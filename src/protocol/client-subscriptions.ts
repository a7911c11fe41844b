import type { ClientAbility } from "./client-abilities.ts";
import type { WorkspaceIo } from "./methods.ts";

/**
 * The messages that a client wants of a session beyond those of canonical ACP. The session tells the connection, by the
 * notifications of `extensions.ts`, and the connection tells its client in the client's own terms.
 */
export type Subscriptions = {
  /** The ends of turns that other clients asked for. */
  readonly turnEnds?: boolean;
  /** Failures, restarts and returns of the agent. */
  readonly agent?: boolean;
  /** Not a subscription but an offer: the files and terminals that the client serves to the agent. */
  readonly serves?: readonly WorkspaceIo[];
  /** Not a subscription either: what the client can show and answer beyond the baseline of ACP. */
  readonly abilities?: readonly ClientAbility[];
};
