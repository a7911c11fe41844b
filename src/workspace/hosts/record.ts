import type { GitState, HostLoad } from "../../protocol/host-wire.ts";
import type { HostToken } from "./host-token.ts";

/** A host as the workspace remembers it, also after it is gone: its sessions wait for it by name. */
export type HostRecord = {
  name: string;
  /** A new one for each process of the host. */
  instance: string;
  state: "connected" | "draining" | "gone";
  root: string;
  about: HostAbout;
  capacity: number;
  load: HostLoad | null;
  git: GitState | null;
  connectedAt: number;
  lastSeenAt: number;
  /** The host said goodbye after all its processes had ended: nobody expects it back. */
  hasLeft: boolean;
  /** The host's sessions were told that it has been away for longer than the grace period. */
  isNotified: boolean;
  /** Null: the host joined before tokens were noted. */
  token: HostToken | null;
};

export type HostAbout = {
  version: string;
  linkVersion: number;
  node: string;
  platform: string;
  /** The most agents that the host runs at a time, if it has such a limit. */
  maxAgents?: number;
  /** How the host keeps agents from its token and from each other, as it says. */
  isolation?: string;
};
