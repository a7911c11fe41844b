import type { IoServer } from "../../../protocol/methods.ts";
import { ASK_ALWAYS, type PermissionPolicy } from "../../../protocol/permission-policy.ts";
import type { Context } from "../events/event.ts";
import { type AcpState, initialAcpState, type Violations } from "./agent-report.ts";
import type { Permission } from "./pending-permission.ts";
import { initialTurnHistory, type TurnHistory } from "./turn-history.ts";

/**
 * What a session knows, as a fold over its log: `apply` is its only writer, depends on nothing but the
 * event, and so the same log gives the same state, whenever and wherever it is replayed. The state is
 * plain JSON; a snapshot is its text.
 */
export type SessionState = {
  /** Raised when `apply` changes its mind about old events: older snapshots are then replayed instead. */
  version: typeof STATE_VERSION;
  sessionId: string;
  lastSeq: number;
  createdAt: number;
  lastAt: number;
  /** When the last frame passed, either way. */
  activeAt: number;
  /** Length of the frames in the log, less those in the archive. */
  historyChars: number;
  /** The last event that is in the archive. */
  archivedUpTo: number;
  closed: boolean;
  closedAt: number | null;
  /** A copy of another session: its agent must not go on in that one's, but may fork it if all of it was copied. */
  fork: { whole: boolean } | null;
  /** The process was stopped for want of work; the next prompt starts one again. */
  paused: boolean;
  identity: Identity | null;
  context: Context;
  agent: AgentStatus;
  /** The agent process that serves the session, until it has ended. */
  run: Run | null;
  /** Where in the log a process was last asked for: only the one that was started for it is let in. */
  wish: number;
  /** The host that has the session's files: the one of the last process. */
  home: string | null;
  /** Processes that ended in a row without having completed a turn. */
  crashes: number;
  /** Text of the last chunk an agent replayed after a restart: some say the same twice. */
  lastReplayed: string | null;
  turn: Turn | null;
  turns: TurnHistory;
  /** Frames of clients that wait: for the agent to be ready, or for the turn before them to end. */
  queue: Queued[];
  /** Requests towards the agent that it has not answered, by sequence number. */
  asked: Record<string, Asked>;
  /** Requests of the agent that nobody has answered, by sequence number. */
  asking: Record<string, Asking>;
  /** What the workspace decides without asking. */
  policy: PermissionPolicy;
  /** Prompts that came with an idempotency key, the newest last. */
  prompts: KeyedPrompt[];
  /** What the agent tells of modes, commands, plans, tool calls and the like. */
  acp: AcpState;
  /** Violations since the turn began or the last one ended, by kind. */
  violations: Partial<Record<keyof Violations, number>>;
  lastError: string | null;
  lastExit: { code: number | null; signal: string | null; at: number; reason: string } | null;
};

export const STATE_VERSION = 6;

/** Who and where: given once, when the session is made. */
export type Identity = {
  tenant: string;
  owner: string;
  workspace: string;
  agent: string;
  cwd: string;
  /** Sequence number of the client's session/new; null as long as it has only logged in. */
  request: number | null;
};

/**
 * `starting` from the moment a process is wanted until it has opened the session; `failed` when it could
 * not be had: the next prompt tries again.
 */
export type AgentStatus = "starting" | "ready" | "failed" | "gone";

export type Run = {
  id: string;
  host: string;
  root: string;
  /** Log position at which the run began: nothing before it is meant for this process. */
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
  /** It has been told to end: its end is no failure. */
  stopping: boolean;
  /** Its host wants to leave: no turn begins in it any more. */
  draining: boolean;
  /** Who serves its files and terminals; of the latter, where each is that clients have made. */
  io: IoServer;
  terminals: { id: string; connection: string }[];
  /** Its host has been away for so long that people should know; it is waited for. */
  absent: boolean;
};

export type Turn = { turnId: string; prompt: number; startedAt: number; cancelled: boolean };

export type Queued = { seq: number; turnId: string | null };

export type Asked = {
  method: string;
  connection?: string;
  id?: string;
  /** What was chosen, if the answer alone does not say it. */
  choice?: string;
  /** Others who sent the same request again and wait for the same answer. */
  also?: { connection: string; id: string }[];
};

/** A prompt by its idempotency key; `answer` is the place of its response. */
export type KeyedPrompt = { key: string; seq: number; answer: number | null };

export type Asking = {
  method: string;
  id: string;
  by: "client" | "host";
  since: number;
  /** The one connection it is for. */
  to?: string;
  /** Connections whose client does not know the method. */
  declined?: string[];
  /** No client was shown it. */
  hidden?: true;
  permission?: Permission;
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
    closed: false,
    closedAt: null,
    fork: null,
    paused: false,
    identity: null,
    context: { acpSessionId: null, agentSessionId: null, turnId: null },
    agent: "starting",
    run: null,
    wish: 0,
    home: null,
    crashes: 0,
    lastReplayed: null,
    turn: null,
    turns: initialTurnHistory(),
    queue: [],
    asked: {},
    asking: {},
    policy: ASK_ALWAYS,
    prompts: [],
    acp: initialAcpState(),
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
