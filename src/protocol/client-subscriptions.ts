import type { WorkspaceIo } from "./methods.ts";

/**
 * What a session tells clients that want to know more than canonical ACP has messages for. These notifications go
 * no further than the connection, which says it in its client's own terms.
 */

/** Which of it a client wants. */
export type Hears = {
  /** The end of turns that others have asked for. */
  readonly turnEnds?: boolean;
  /** That the agent has failed, is started again, is back. */
  readonly agent?: boolean;
  /** What it can do for the agent in turn. */
  readonly serves?: readonly WorkspaceIo[];
};
