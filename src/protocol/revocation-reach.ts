/** Everything that a revocation has found: it is ended, or does not work until the revocation is lifted. */
export type RevocationReach = {
  /** Ids of links to sessions. */
  shares: string[];
  /** Ids of answer links; links made together have one id. */
  answerLinks: string[];
  /** Webhooks that pause. */
  webhooks: { workspace: string; id: string }[];
  /** Sockets and HTTP connections of clients, and live readers. */
  sockets: number;
  /** Sockets of hosts: control sockets, and one for each session that a host runs. */
  hosts: number;
  /** Orders to end or pause that other objects have not confirmed yet. The gateway repeats them until they are. */
  unconfirmed: number;
};
