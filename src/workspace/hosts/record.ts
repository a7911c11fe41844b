import type { GitState, HostLoad } from "../../protocol/host-wire.ts";

/** What a workspace remembers of hosts and agents. */

/** A host as remembered, also after it is gone: its sessions wait for it by name. */
export type HostRecord = {
  name: string;
  /** New for each life of the host's process. */
  instance: string;
  state: "connected" | "draining" | "gone";
  root: string;
  about: HostAbout;
  capacity: number;
  load: HostLoad | null;
  git: GitState | null;
  connectedAt: number;
  lastSeenAt: number;
  /** It said goodbye, after all its processes had ended. */
  left: boolean;
  /** Its sessions have heard that it has been away for too long. */
  told: boolean;
};

export type HostAbout = {
  version: string;
  linkVersion: number;
  node: string;
  platform: string;
  /** Agents it runs at most, if there is a limit. */
  maxAgents?: number;
};

/** What one host says of one agent. `initialize` is the agent's answer as JSON. */
export type Offer = {
  host: string;
  id: string;
  name: string;
  isDefault: boolean;
  /** False: `reason` says what it lacks on that host. */
  available: boolean;
  reason: string | null;
  description: string | null;
  version: string | null;
  initialize: string | null;
  error: string | null;
};
