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

/** Raised by one when a host and a gateway of adjacent versions could no longer understand each other. */
export const LINK_VERSION = 4;

/**
 * The oldest version that the gateway still serves: a gateway is deployed before its hosts are. A host of a version
 * outside this range is told so, and ends.
 */
export const OLDEST_LINK_VERSION = 4;

/** Control socket, host → gateway. `hello` comes first and states everything that holds; the others are changes. */
export type HostControl =
  | {
      t: "hello";
      version: number;
      /** Stable across restarts of the host, like a container's name. */
      name: string;
      /** New for each host process: tells a reconnect from a restart. */
      instance: string;
      /** Absolute path of the workspace on the host. */
      root: string;
      software: { version: string; node: string; platform: string };
      /** The number of agents that the host prefers to run at most. */
      capacity: number;
      /** The number of agents that the host runs at most, if it has a limit. */
      maxAgents?: number | undefined;
      /** How agents are kept from the host's token and from each other: `none`, `user`, `bwrap`, `user+bwrap`, … */
      isolation?: string | undefined;
      /** The host takes no new sessions, and ends when its sessions can do without it. */
      draining: boolean;
      agents: AgentOffer[];
      /** Agent processes alive in this host. */
      runs: { sessionId: string; run: string }[];
      /** The host has secrets from an earlier socket, which may have changed since. */
      secrets?: boolean | undefined;
    }
  /** An agent's answer to `initialize`, sent when the host first knows it. */
  | { t: "agent"; id: string; initialize: unknown }
  | { t: "agent_failed"; id: string; error: string }
  /** The agents again, after `secrets` changed which of them can be started. */
  | { t: "offers"; agents: AgentOffer[] }
  /** The state of the workspace's files; null if they are in no repository. */
  | { t: "workspace"; git: GitState | null }
  | ({ t: "load" } & HostLoad)
  | { t: "draining" }
  /** The answer to `probe`. */
  | { t: "alive" }
  /** A newer token of the host, with which this socket continues. */
  | { t: "renew"; token: string };

/** An agent with `available: false` has a `reason`: for example, it is not installed, or lacks a key. */
export type AgentOffer = {
  id: string;
  name: string;
  default: boolean;
  available?: boolean | undefined;
  reason?: string | undefined;
  description?: string | undefined;
  version?: string | undefined;
  /** Other names by which clients know the agent. */
  aliases?: readonly string[] | undefined;
};

/** Limits of the offers of one host. The gateway refuses longer lists and texts, so the host shortens them. */
export const OFFER_LIMITS = {
  agents: 100,
  aliases: 10,
  idChars: 100,
  nameChars: 200,
  textChars: 1000,
  pathChars: 4096,
  /** Names of modified files, all together. */
  modifiedFilesChars: 200_000,
} as const;

export type HostLoad = {
  /** Sessions that have an agent process here. */
  runs: number;
  /** The average of the last minute. */
  loadAverage: number;
  /** In bytes. */
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
  /** The first modified files, and the number of all. */
  modifiedFiles: string[];
  modifiedCount: number;
};

/** Control socket, gateway → host. */
export type GatewayControl =
  | { t: "welcome" }
  /**
   * Start a process. `processRequest` is the session's number of its request, and `io` the side that serves the files
   * and terminals of this process; absent: the host. The process's `hello` repeats both.
   */
  | {
      t: "open";
      sessionId: string;
      agent: string;
      processRequest: number;
      io?: IoServer | undefined;
    }
  /** A client is about to use this agent, or wants to know its capabilities: start it in advance. */
  | { t: "warm"; agent: string }
  /** All secrets of the workspace, for the agents that declare them. */
  | { t: "secrets"; values: Record<string, string> }
  /** A token to use from now on in place of the previous one. */
  | { t: "token"; token: string }
  /** Another host of this name wants to connect. A host that is alive answers `alive`. */
  | { t: "probe" }
  /**
   * The host is not accepted. `name`: another host has this name, which may change. `version`: retrying is useless.
   * `token`: the token is for a host of another name. `full`: the workspace has too many hosts, which may change.
   */
  | { t: "refused"; reason: string; why: "version" | "name" | "token" | "full" }
  /** The host's token is about to expire, and with it this socket. */
  | { t: "expiring"; expiresAt: string }
  | { t: "renewed"; expiresAt: string }
  | { t: "not_renewed"; reason: string };

/** Session socket, heads of host → session messages. */
export type HostHead =
  /**
   * First message on each socket. `host` is the host's name, `root` the workspace's path on it, `processRequest` the
   * session's number of the request for this process, and `delivered` the last log sequence number written to the
   * agent.
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
      /** As the workspace's order said: the session refuses a process that says otherwise. */
      io?: IoServer | undefined;
    }
  /**
   * Items `first`, `first + 1`, … of this run follow, one per line. `delivered` is as in `hello`; hosts of earlier builds
   * do not say it.
   */
  | { t: "lines"; first: number; delivered?: number | undefined };

/** Session socket, heads of session → host messages. */
export type SessionHead =
  /**
   * All items up to `received` are durable; the host continues after them. `windowMs` is the longest time that the
   * gateway wants streamed items to be held back for; gateways of earlier builds do not say it.
   */
  | {
      t: "welcome";
      received: number;
      windowMs?: number | undefined;
      /** The largest frame that the session takes. */
      frameChars?: number | undefined;
      /** The session takes the output of the host's terminals; gateways of earlier builds do not. */
      terminalOutput?: true | undefined;
    }
  | { t: "ack"; received: number }
  /** Lines for the agent's stdin follow, each `<seq> <json>`. */
  | { t: "lines" }
  /** The session needs this process no more: end it. */
  | { t: "stop"; reason: string };

/**
 * One item of a run that is not a frame. A frame of the agent is a JSON object, verbatim. An event of the host is a
 * JSON array, so the first character tells them apart.
 */
export type HostEvent =
  | ["started", { pid: number | null; command: string }]
  /**
   * `sent`: a frame that the host itself wrote to the agent (`initialize`). `answer`: the host's response to a file or
   * terminal request of the agent, which reaches the agent through the log. `noise`: a line on the agent's stdout that
   * is not a JSON object. `dropped`: why a message of the agent is missing. An older gateway logs the event as noise.
   */
  | ["sent" | "answer" | "noise" | "dropped", string]
  /** A piece of the output of a terminal that the host serves, and the end of its command. */
  | ["terminal_output", { terminalId: string; data: string }]
  | ["terminal_exit", { terminalId: string; exitCode: number | null; signal: string | null }]
  /** The process ended; always the last item of a run. `stderr` is the tail of the process's stderr. */
  | ["exit", { code: number | null; signal: string | null; error?: string | undefined; stderr: string }];

export function encodeLink(head: HostHead | SessionHead, lines: readonly string[] = []): string {
  return lines.length === 0 ? JSON.stringify(head) : `${JSON.stringify(head)}\n${lines.join("\n")}`;
}

/** Splits a message into its head and its lines. The caller validates the head. */
export function decodeLink(message: string): { head: unknown; lines: string[] } {
  const [first = "", ...lines] = message.split("\n");
  return { head: parseJson(first), lines };
}

/** Reads an item that begins with `[`; undefined if the item is no host event. */
export function parseHostEvent(line: string): HostEvent | undefined {
  const checked = HOST_EVENT.safeParse(parseJson(line));
  return checked.success ? checked.data : undefined;
}

const HOST_EVENT = z.union([
  z.tuple([z.literal("started"), z.object({ pid: z.number().nullable(), command: z.string() })]),
  z.tuple([z.enum(["sent", "answer", "noise", "dropped"]), z.string()]),
  z.tuple([z.literal("terminal_output"), z.object({ terminalId: z.string(), data: z.string() })]),
  z.tuple([
    z.literal("terminal_exit"),
    z.object({ terminalId: z.string(), exitCode: z.number().nullable(), signal: z.string().nullable() }),
  ]),
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

/** Splits a line for the agent: the log sequence number, a space, the frame. */
export function splitNumbered(line: string): { seq: number; frame: string } {
  const space = line.indexOf(" ");
  return { seq: Number(line.slice(0, space)), frame: line.slice(space + 1) };
}
