/** One agent as one host offers it. */
export type Offer = {
  host: string;
  id: string;
  name: string;
  isDefault: boolean;
  /** False: the agent cannot be started on this host, and `reason` says what it lacks. */
  available: boolean;
  reason: string | null;
  description: string | null;
  version: string | null;
  /** Other names by which clients know the agent. */
  aliases: readonly string[];
  /** The agent's response to `initialize` as JSON, once it was started. */
  initialize: string | null;
  /** Why the agent's last start failed. */
  error: string | null;
};
