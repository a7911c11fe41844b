import type { CloseMeaning } from "../../../protocol/close-meaning.ts";
import type { IoServer } from "../../../protocol/methods.ts";
import type { OpeningRules } from "../../../protocol/opening-rules.ts";
import { ASK_ALWAYS, type PermissionPolicy } from "../../../protocol/permission-policy.ts";
import type { DuplicateChunks } from "../../../protocol/workspace-settings.ts";
import type { Context } from "../events/event.ts";
import { type AgentReport, initialAgentReport } from "./agent-report.ts";
import type { BroughtMembers } from "./brought-members.ts";
import type { Permission } from "./pending-permission.ts";
import type { Question } from "./pending-question.ts";
import type { ShownTerminal, TerminalOrder } from "./terminals.ts";
import { initialTurnHistory, type TurnHistory } from "./turn-history.ts";
import type { Violations } from "./violations.ts";
import type { WantedSettings } from "./wanted-settings.ts";

/**
 * The state of a session, a fold over its log. `apply` is the only writer and depends on nothing but the event, so a log
 * gives the same state whenever and wherever it is replayed. The state is plain JSON; a snapshot is its text.
 */
export type SessionState = {
  /** Raised when the fold or the form of the state changes: `state-upgrades.ts` says what becomes of older snapshots. */
  version: typeof STATE_VERSION;
  sessionId: string;
  lastSeq: number;
  createdAt: number;
  lastAt: number;
  /** When the last frame passed, in either direction. */
  activeAt: number;
  /** Characters of the frames in the log, without those in the archive. */
  historyChars: number;
  /** The last event that is in the archive. */
  archivedUpTo: number;
  /** Length of the frames in the archive. */
  archivedChars: number;
  closed: boolean;
  closedAt: number | null;
  /** The title that a person gave the session: it holds, whatever the agent says. */
  title?: string;
  /** Lists leave the session out unless they are asked for archived ones. */
  archived?: true;
  /**
   * Set in a copy of another session until its agent has run. The agent must not continue the original's agent session,
   * but may fork it if the copy is whole.
   */
  fork: { whole: boolean } | null;
  /** The process was stopped because it was idle; the next prompt starts another. */
  paused: boolean;
  identity: SessionIdentity | null;
  /** Everybody whom the log names, in the order of their first appearance. */
  people: string[];
  context: Context;
  agent: AgentStatus;
  /** The agent process that serves the session, until it has ended. */
  run: Run | null;
  /** The event that last asked for a process: only the process that was started for it may connect. */
  processRequest: number;
  /** The host that has the session's files: the host of the last process. */
  home: string | null;
  /** Processes that ended in a row without having completed a turn. */
  crashes: number;
  /** Text of the last chunk that an agent replayed after a restart, because some agents repeat chunks. */
  lastReplayed: string | null;
  turn: Turn | null;
  turns: TurnHistory;
  /** Frames of clients that wait for the agent to be ready, or for the turns before them to end. */
  queue: Queued[];
  /** Requests that the agent has not answered, by sequence number. */
  awaitingAgent: Record<string, RequestToAgent>;
  /** Requests of the agent that no client or host has answered, by sequence number. */
  awaitingClient: Record<string, RequestOfAgent>;
  /** The permissions that the workspace grants or refuses without asking a person. */
  policy: PermissionPolicy;
  /** The meaning of a client's `session/close`, as the workspace last said; absent: `auto`. */
  closeMeans?: CloseMeaning;
  /** Prompts that came with an idempotency key, the newest last. */
  prompts: KeyedPrompt[];
  /** Terminals of the running process, the oldest first. Earlier builds kept none. */
  terminals?: ShownTerminal[];
  /** The agent's ids of its sub-agents' sessions, the newest last. */
  children?: string[];
  /** Modes, commands, plans, tool calls and the like, as the agent reported them. */
  report: AgentReport;
  /** Members of the opening that came after the client's `session/new`. */
  brought?: BroughtMembers;
  /** The `authenticate` that the agent, or another process of the same agent, accepted last. */
  login?: number;
  /** The settings of the process before, until they hold in this one or clients are told. */
  wanted?: WantedSettings;
  /** Violations since the turn began or the last one ended, by kind. */
  violations: Partial<Record<keyof Violations, number>>;
  lastError: string | null;
  lastExit: { code: number | null; signal: string | null; at: number; reason: string } | null;
};

export const STATE_VERSION = 11;

/** The session's owner and place, given once when the session is made. */
export type SessionIdentity = {
  tenant: string;
  owner: string;
  workspace: string;
  agent: string;
  cwd: string;
  /** Sequence number of the client's session/new; null while the client has only logged in. */
  request: number | null;
};

/**
 * `starting` from the request for a process until the process has opened the session. `failed` when no process could be
 * had; the next prompt asks again.
 */
export type AgentStatus = "starting" | "ready" | "failed" | "gone";

/** One agent process. */
export type Run = {
  id: string;
  host: string;
  root: string;
  /** Log position at which the run began: nothing before it is for this process. */
  since: number;
  /** Items of this run that are in the log. */
  received: number;
  connected: boolean;
  pid: number | null;
  command: string | null;
  startedAt: number | null;
  initialized: boolean;
  canLoad: boolean;
  canResume: boolean;
  canFork: boolean;
  /** The `authenticate` that the process got because it refused to open the session without a login. */
  login?: number;
  canClose?: boolean;
  canDelete?: boolean;
  /** The process has been told to end: its end is no failure. */
  stopping: boolean;
  /** The host is draining: no further turn begins in this process. */
  draining: boolean;
  /** The side that serves files and terminals, as the workspace decided when it placed the process. */
  io: IoServer;
  /** The rules for openings by clients, as the workspace decided when the process connected. */
  opening: OpeningRules;
  /** Which repeated chunks are kept from clients, as the workspace decided; absent: replayed ones. */
  duplicateChunks?: DuplicateChunks;
  /** The last text chunk, where the next one is compared with it. */
  lastChunk?: string | null;
  /** Terminals that clients have created, with the connection that has each. */
  terminals: { id: string; connection: string }[];
  /** Updates that wait for the answer that opens the agent session. */
  earlyUpdates?: number[];
  /** The host has been away for so long that clients were told; the session waits for it. */
  absent: boolean;
};

export type Turn = { turnId: string; prompt: number; startedAt: number; cancelled: boolean };

export type Queued = { seq: number; turnId: string | null };

/** Stands for the connection of a client that left before its request was answered. */
export const NOBODY = "";

/** A request that the agent has to answer. Without a connection the gateway asked on its own account. */
export type RequestToAgent = {
  method: string;
  connection?: string;
  id?: string;
  /** The request names no session: it needs a process, and no agent session. */
  process?: true;
  /** The request is about the session of a sub-agent. */
  child?: true;
  /** The requested mode or model, where the answer alone does not name it. */
  choice?: string;
  /** The mode, model or option that the gateway sets, by its name in `WantedSettings`. */
  setting?: string;
  /** Further clients that sent the same request and wait for the same answer. */
  also?: { connection: string; id: string }[];
};

/** A prompt by its idempotency key; `answer` is the sequence number of its response. */
export type KeyedPrompt = { key: string; seq: number; answer: number | null };

/** A request of the agent that a client or the host has to answer. */
export type RequestOfAgent = {
  method: string;
  id: string;
  by: "client" | "host";
  since: number;
  /** The only connection the request was sent to. */
  to?: string;
  /** Connections whose client could not answer. */
  declined?: string[];
  /** No client was shown the request. */
  hidden?: true;
  permission?: Permission;
  /** The command of a `terminal/create`. */
  order?: TerminalOrder;
  /** The terminal that the request is about. */
  terminal?: string;
  /** The agent asks any person who is able to answer, whether a client is attached or not. */
  question?: Question;
  /** Nobody answered in time, and the policy had no answer either. */
  expired?: true;
};

export function initialState(sessionId: string): SessionState {
  return {
    version: STATE_VERSION,
    sessionId,
    lastSeq: 0,
    createdAt: 0,
    lastAt: 0,
    activeAt: 0,
    historyChars: 0,
    archivedUpTo: 0,
    archivedChars: 0,
    closed: false,
    closedAt: null,
    fork: null,
    paused: false,
    identity: null,
    people: [],
    context: { acpSessionId: null, agentSessionId: null, turnId: null },
    agent: "starting",
    run: null,
    processRequest: 0,
    home: null,
    crashes: 0,
    lastReplayed: null,
    turn: null,
    turns: initialTurnHistory(),
    queue: [],
    awaitingAgent: {},
    awaitingClient: {},
    policy: ASK_ALWAYS,
    prompts: [],
    report: initialAgentReport(),
    violations: {},
    lastError: null,
    lastExit: null,
  };
}

/** The process is told to end, or will be once its host is back. */
export function stopRun(state: SessionState): void {
  state.agent = "gone";
  if (state.run) state.run.stopping = true;
}
