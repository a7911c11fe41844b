/**
 * Rows that fail, each with the reason. The suite reports them by id, and fails when a row of these lists passes, so no
 * entry outlives its reason.
 */
export type KnownFailure = {
  id: string;
  /** Words of the place, such as the agent or the transport; absent: everywhere. */
  where?: string;
  reason: string;
};

/** Rows that the gateway has yet to fulfil. */
export const PENDING: KnownFailure[] = [];

/** Rows that an agent fails by itself, without the gateway as well. */
export const OF_THE_AGENT: KnownFailure[] = [
  {
    id: "ACP-SCHEMA-002",
    where: "qwen-code",
    reason: "Qwen Code has modes in its answer to initialize, and models in its answer to session/new",
  },
];
