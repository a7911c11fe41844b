import { z } from "zod";
import { parseJson } from "./json-value.ts";
import type { IoServer } from "./methods.ts";

/**
 * The wire between an agent host and the gateway.
 *
 * A host holds one control socket to its WorkspaceState and one socket per session to that AcpSession.
 * Every message is text: one line of JSON, the head, then (for `lines`) one line per item. Agent frames
 * travel as they are instead of as JSON strings, so that neither side escapes a stream twice.
 *
 * Both directions are numbered. The host numbers the items of one agent process (a *run*) 1, 2, 3, …; the
 * session names each line for the agent by the log sequence number it comes from. Each side tells the
 * other what it has, and after a reconnect the sender goes on from there: nothing is lost, nothing is
 * delivered twice.
 */

/** Raised by one when an old host could no longer understand the gateway, or the other way round. */
export const LINK_VERSION = 3;

/** Control socket, host → gateway. Everything but `hello` is news; a greeting repeats what still holds. */
export type HostControl =
  | {
      t: "hello";
      version: number;
      /** Stable across restarts of the host: a container's name. */
      name: string;
      /** New for each host process: tells a reconnect from a restart. */
      instance: string;
      /** Absolute path of the workspace on the host. */
      root: string;
      software: { version: string; node: string; platform: string };
      /** Agents it would like to run at most. */
      capacity: number;
      /** Agents it runs at most, if there is a limit. */
      maxAgents?: number | undefined;
      /** It takes no new sessions and ends when those it has can do without it. */
      draining: boolean;
      agents: AgentOffer[];
      /** Agent processes alive in this host. */
      runs: { sessionId: string; run: string }[];
      /** It has secrets from an earlier socket, which may have changed since. */
      secrets?: boolean | undefined;
    }
  /** What an agent answered to `initialize`, sent when it is first known. */
  | { t: "agent"; id: string; initialize: unknown }
  | { t: "agent_failed"; id: string; error: string }
  /** The agents again, as `secrets` have changed what can be started. */
  | { t: "offers"; agents: AgentOffer[] }
  /** The state of the workspace's files; null if they are in no repository. */
  | { t: "workspace"; git: GitState | null }
  | ({ t: "load" } & HostLoad)
  | { t: "draining" }
  /** The answer to `probe`. */
  | { t: "alive" }
  /** A newer token of the same host, for this socket to go on with. */
  | { t: "renew"; token: string };

/** `available: false` has a `reason`: it is not installed, or lacks a key. */
export type AgentOffer = {
  id: string;
  name: string;
  default: boolean;
  available?: boolean | undefined;
  reason?: string | undefined;
  description?: string | undefined;
  version?: string | undefined;
};

/** What one host may offer. The gateway refuses longer lists and texts, so the host shortens them. */
export const OFFER_LIMITS = { agents: 100, idChars: 100, nameChars: 200, textChars: 1000 } as const;

export type HostLoad = {
  /** Sessions that have an agent process here. */
  runs: number;
  /** Of the last minute. */
  loadAverage: number;
  /** Bytes. */
  freeMemory: number;
};

export type GitState = {
  /** Null: no branch is checked out. */
  branch: string | null;
  /** Null: there is no commit yet. */
  head: string | null;
  /** Commits that the branch and its upstream have over each other; null without an upstream. */
  ahead: number | null;
  behind: number | null;
  /** The first of them, and how many there are. */
  modifiedFiles: string[];
  modifiedCount: number;
};

/** What a workspace tells its hosts of its settings. */
export type HostSettings = {
  /** Who serves agents' files and terminals; absent: the host. */
  clientIo?: IoServer | undefined;
};

/** Control socket, gateway → host. */
export type GatewayControl =
  | ({ t: "welcome" } & HostSettings)
  /** They have changed; they hold for processes that start from now on. */
  | ({ t: "settings" } & HostSettings)
  /** `processRequest` is the session's own number for this process, to be repeated when it says hello. */
  | { t: "open"; sessionId: string; agent: string; processRequest: number }
  /** Somebody is about to use this agent, or wants to know what it can do. */
  | { t: "warm"; agent: string }
  /** All secrets of the workspace, for the agents that declare them. */
  | { t: "secrets"; values: Record<string, string> }
  /** To be used from now on, in place of the one it was started with. */
  | { t: "token"; token: string }
  /** Another host of this name wants in: are you there? */
  | { t: "probe" }
  /** `name`: another host has this name now; that may change. Otherwise asking again is of no use. */
  | { t: "refused"; reason: string; why: "version" | "name" }
  /** The host's token is about to expire, and this socket with it. */
  | { t: "expiring"; expiresAt: string }
  | { t: "renewed"; expiresAt: string }
  | { t: "not_renewed"; reason: string };

/** Session socket, heads of host → session messages. */
export type HostHead =
  /**
   * First message on each socket. `host` is the host's name, `root` the workspace's path on it, `processRequest` the
   * number the session gave this process when it asked for it, and `delivered` the last log sequence number
   * written to the agent.
   */
  | {
      t: "hello";
      run: string;
      agent: string;
      host: string;
      root: string;
      processRequest: number;
      delivered: number;
      /** The host is about to leave. */
      draining: boolean;
      /** Who serves the files and terminals of this process; the host, unless it says otherwise. */
      io?: IoServer | undefined;
    }
  /** Items `first`, `first + 1`, … of this run follow, one per line. */
  | { t: "lines"; first: number };

/** Session socket, heads of session → host messages. */
export type SessionHead =
  /** All items up to `received` are durable; go on after it. */
  | { t: "welcome"; received: number }
  | { t: "ack"; received: number }
  /** Lines for the agent's stdin follow, each `<seq> <json>`. */
  | { t: "lines" }
  /** The session has no use for this process any more: end it. */
  | { t: "stop"; reason: string };

/**
 * One item of a run. A JSON object is a frame the agent wrote, verbatim. A JSON array is an event of the
 * host's own, so the first character tells them apart.
 */
export type HostEvent =
  | ["started", { pid: number | null; command: string }]
  /**
   * `sent`: a frame the host wrote to the agent on its own account (`initialize`). `answer`: its response to
   * a file or terminal request of the agent, which reaches the agent through the log. `noise`: a line on the
   * agent's stdout that is not a JSON object.
   */
  | ["sent" | "answer" | "noise", string]
  /** The process is gone; always the last item of a run. `stderr` is the end of what it said there. */
  | ["exit", { code: number | null; signal: string | null; error?: string | undefined; stderr: string }];

export function encodeLink(head: HostHead | SessionHead, lines: readonly string[] = []): string {
  return lines.length === 0 ? JSON.stringify(head) : `${JSON.stringify(head)}\n${lines.join("\n")}`;
}

/** Splits a message into its head and its lines. The head is the peer's word, to be checked by the caller. */
export function decodeLink(message: string): { head: unknown; lines: string[] } {
  const [first = "", ...lines] = message.split("\n");
  return { head: parseJson(first), lines };
}

/** One item of a run that is not a frame; undefined if it is not one of ours. */
export function parseHostEvent(line: string): HostEvent | undefined {
  const checked = HOST_EVENT.safeParse(parseJson(line));
  return checked.success ? checked.data : undefined;
}

const HOST_EVENT = z.union([
  z.tuple([z.literal("started"), z.object({ pid: z.number().nullable(), command: z.string() })]),
  z.tuple([z.enum(["sent", "answer", "noise"]), z.string()]),
  z.tuple([
    z.literal("exit"),
    z.object({
      code: z.number().nullable(),
      signal: z.string().nullable(),
      error: z.string().optional(),
      stderr: z.string(),
    }),
  ]),
]);

/**
 * Characters kept of a line of an agent's stdout that is not a frame. The host cuts such a line before it sends it, and
 * the session cuts it again, because an older host may send more. A few kilobytes identify any warning.
 */
export const NOISE_CHARS = 4 * 1024;

/** A line for the agent: the log sequence number, a space, the frame. */
export function splitNumbered(line: string): { seq: number; frame: string } {
  const space = line.indexOf(" ");
  return { seq: Number(line.slice(0, space)), frame: line.slice(space + 1) };
}
