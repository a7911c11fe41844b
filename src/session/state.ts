import type { Frame } from "../protocol/frame.ts";
import { KEEP } from "../protocol/limits.ts";
import { ASK_ALWAYS, PERMISSION_POLICY, type PermissionPolicy } from "../protocol/policy.ts";
import {
  type AcpState,
  applyPermission,
  applyResult,
  applyUpdate,
  choiceOf,
  initialAcpState,
  type Violations,
} from "./acp-state.ts";
import { clip, isRecord } from "./bounded.ts";
import type { Context, FrameEvent, LogEvent, Payload, Route } from "./event.ts";
import { isFrame } from "./event.ts";
import { type Permission, permissionOf } from "./permission.ts";
import {
  addTurn,
  countUpdate,
  findTurn,
  finishTurn,
  initialTurnHistory,
  startTurn,
  type TurnHistory,
  type TurnNote,
} from "./turn-history.ts";

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

export const STATE_VERSION = 4;

/** Who and where: given once, when the session is made. */
export type Identity = {
  tenant: string;
  owner: string;
  workspace: string;
  agent: string;
  cwd: string;
  /** Sequence number of the client's session/new. */
  request: number;
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

/** Folds one event into the state, in place. */
export function apply(state: SessionState, event: LogEvent): void {
  if (state.lastSeq === 0) state.createdAt = event.at;
  state.lastSeq = event.seq;
  state.lastAt = event.at;
  // What the host sends is numbered per run, one event for each item: counting them is the acknowledgement.
  if (state.run && (event.source === "agent" || event.source === "host")) state.run.received += 1;
  if (isFrame(event)) applyFrame(state, event);
  else applyNote(state, event.kind, event.payload, event);
}

function applyFrame(state: SessionState, event: FrameEvent): void {
  const { frame, route, seq } = event;
  state.activeAt = event.at;
  state.historyChars += frame.raw.length;
  if (event.direction === "out") {
    if (frame.method === "session/prompt") rememberPrompt(state, event);
    if (frame.kind === "response" && route.re !== undefined) settleAsking(state, route, route.re);
    if (frame.kind === "request" && route.stop !== "gateway" && route.stop !== "sent") {
      if (frame.method === "session/prompt") acceptPrompt(state, event);
      state.asked[seq] = askedBy(state, event);
      if (route.re !== undefined) delete state.asked[route.re];
    }
    return;
  }
  const before = event.source === "agent" ? { ...state.acp.violations } : undefined;
  if (isForeign(state, event)) state.acp.violations.foreignSession += 1;
  if (frame.kind === "invalid") state.acp.violations.noMessage += 1;
  if (frame.kind === "request" && event.source === "agent") applyAgentRequest(state, event);
  if (frame.kind === "response") applyAnswer(state, event);
  if (route.stop === "replay") state.lastReplayed = chunkText(frame);
  if (frame.method === "session/update") applyAgentUpdate(state, event);
  if (before) countInTurn(state, before);
}

function settleAsking({ asking }: SessionState, { stop, connection }: Route, seq: number): void {
  const open = asking[seq];
  if (stop !== "declined") delete asking[seq];
  else if (open && connection !== undefined) open.declined = [...(open.declined ?? []), connection];
}

/** An agent may tell of sessions below this one; before it has opened ours, its id is not known. */
function isForeign({ agent }: SessionState, { frame, source, route, context }: FrameEvent): boolean {
  if (source !== "agent" || frame.kind === "response" || frame.sessionId === undefined) return false;
  if (agent !== "ready" || context.acpSessionId === null || route.early || route.stop === "replay")
    return false;
  return frame.sessionId !== context.acpSessionId;
}

function countInTurn(state: SessionState, before: Violations): void {
  const now = state.acp.violations;
  for (const kind in now) {
    const more = now[kind as keyof Violations] - before[kind as keyof Violations];
    if (more > 0)
      state.violations[kind as keyof Violations] = (state.violations[kind as keyof Violations] ?? 0) + more;
  }
}

function applyAnswer(state: SessionState, { frame, route, source, seq }: FrameEvent): void {
  const { run } = state;
  if (route.re !== undefined) {
    const asked = state.asked[route.re];
    if (asked && source === "agent" && "result" in frame.value)
      applyResult(state.acp, asked.method, asked.choice, frame.value.result, seq);
    delete state.asked[route.re];
    const prompt = state.prompts.find((known) => known.seq === route.re);
    if (prompt) prompt.answer ??= seq;
  }
  if (run && !run.initialized && source === "agent") {
    const result = frame.value.result as { agentCapabilities?: AgentCapabilities } | null | undefined;
    run.initialized = result !== undefined;
    run.canLoad = result?.agentCapabilities?.loadSession === true;
    run.canResume = result?.agentCapabilities?.sessionCapabilities?.resume != null;
    run.canFork = result?.agentCapabilities?.sessionCapabilities?.fork != null;
  }
}

type AgentCapabilities = {
  loadSession?: unknown;
  sessionCapabilities?: { resume?: unknown; fork?: unknown };
};

function rememberPrompt(state: SessionState, { frame, route, seq }: FrameEvent): void {
  const original = route.repeats === undefined ? undefined : state.asked[route.repeats];
  if (original && route.connection !== undefined) {
    original.also = [...(original.also ?? []), { connection: route.connection, id: frame.idText as string }];
  }
  const key = promptKey(frame);
  if (key === null || route.stop === "gateway") return;
  state.prompts.push({ key, seq, answer: null });
  if (state.prompts.length > KEEP.promptKeys) state.prompts.shift();
}

/** By this a client may send a prompt again without it running twice. */
export function promptKey(frame: Frame): string | null {
  const key = statedKey(frame);
  return typeof key === "string" && key.length <= KEEP.promptKeyChars ? key : null;
}

/** Why a prompt's key cannot be one, if so. */
export function badPromptKey(frame: Frame): string | undefined {
  if (statedKey(frame) == null || promptKey(frame) !== null) return undefined;
  return `_meta["${IDEMPOTENCY_KEY}"] must be a string of at most ${KEEP.promptKeyChars} characters`;
}

function statedKey(frame: Frame): unknown {
  const params = frame.value.params as { _meta?: { [IDEMPOTENCY_KEY]?: unknown } | null } | null | undefined;
  return params?._meta?.[IDEMPOTENCY_KEY];
}

const IDEMPOTENCY_KEY = "acp-edge/idempotencyKey";

/** The text of a message chunk worth comparing; null for anything else. */
export function chunkText(frame: Frame): string | null {
  const params = frame.value.params as
    | { update?: { content?: { text?: unknown } | null } | null }
    | null
    | undefined;
  const text = params?.update?.content?.text;
  return typeof text === "string" && text.length <= KEEP.replayedChars ? text : null;
}

/** A request of the gateway may carry out a client's: then the answer is that client's. */
function askedBy(state: SessionState, { frame, route }: FrameEvent): Asked {
  const method = frame.method as string;
  const original = route.re === undefined ? undefined : state.asked[route.re];
  if (original) return { ...original, method };
  const asked: Asked =
    route.connection === undefined
      ? { method }
      : { method, connection: route.connection, id: frame.idText as string };
  const choice = choiceOf(method, frame.value.params);
  if (choice !== undefined) asked.choice = choice;
  return asked;
}

function acceptPrompt(state: SessionState, { frame, seq, at, context, requestId }: FrameEvent): void {
  const { params } = frame.value;
  addTurn(state.turns, { turnId: context.turnId, prompt: seq, at, requestId, params });
}

function applyAgentRequest(state: SessionState, { frame, route, seq, at }: FrameEvent): void {
  const asking: Asking = {
    method: frame.method as string,
    id: frame.idText as string,
    by: route.stop === "host" ? "host" : "client",
    since: at,
  };
  if (route.to !== undefined) asking.to = route.to;
  if (route.stop === "gateway") asking.hidden = true;
  if (frame.method === "session/request_permission") {
    const params = frame.value.params as { toolCall?: unknown } | null | undefined;
    asking.permission = permissionOf(params, seq, Object.keys(state.asking).length);
    applyPermission(state.acp, params?.toolCall, seq, at);
  }
  state.asking[seq] = asking;
}

/** Runs for every chunk the agent streams. What it replays after a restart has been counted before. */
function applyAgentUpdate(state: SessionState, event: FrameEvent): void {
  const { frame, route, source, context } = event;
  if (source === "gateway" || route.stop !== undefined) return;
  if (frame.sessionId !== context.acpSessionId && context.acpSessionId !== null && state.agent === "ready")
    return;
  const { acp, turn } = state;
  const update = (frame.value.params as { update?: unknown } | null | undefined)?.update;
  const calls = acp.toolCalls.total;
  applyUpdate(acp, update, event.seq, event.at);
  const record = turn && findTurn(state.turns, turn);
  if (record) countUpdate(record, update, acp.toolCalls.total - calls);
}

function applyNote(
  state: SessionState,
  kind: string,
  payload: Readonly<Record<string, unknown>>,
  event: LogEvent,
): void {
  switch (kind) {
    case "session.requested":
      state.identity = payload as Identity;
      state.wish = event.seq;
      return;
    case "session.imported":
      // Whose it was elsewhere is part of its history; nothing runs here yet.
      state.identity = payload as Identity;
      state.agent = "gone";
      state.policy = ASK_ALWAYS;
      state.fork = forkIn(payload.from);
      // A fork is made where the original is; the files of any other are elsewhere.
      if (!state.fork) state.home = null;
      return;
    case "permission.policy":
      state.policy = readPolicy(payload);
      return;
    case "permission.expired": {
      const asking = typeof payload.request === "number" ? state.asking[payload.request] : undefined;
      if (asking) asking.expired = true;
      return;
    }
    case "session.created":
    case "session.rebound":
      state.context = event.context;
      state.agent = "ready";
      state.fork = null;
      return;
    case "log.archived":
      state.historyChars -= payload.chars as number;
      state.archivedUpTo = payload.last as number;
      return;
    case "session.agent_session_id.updated":
      state.context = event.context;
      return;
    case "session.loaded":
      // By the agent in its new process, or by a client, which opens a closed session again unless it looks on.
      if (payload.method !== undefined) state.agent = "ready";
      else if (payload.role !== "observer") {
        state.closed = false;
        state.closedAt = null;
      }
      return;
    case "session.closed":
      state.closed = true;
      state.closedAt = event.at;
      endRun(state);
      return;
    case "queue.owner.idle_expired":
      state.paused = true;
      endRun(state);
      return;
    case "runtime.reconnect_attempt":
      state.agent = "starting";
      state.paused = false;
      if (payload.process !== "same") state.wish = event.seq;
      return;
    case "runtime.connected":
      state.run = {
        id: text(payload.run) ?? "",
        host: text(payload.host) ?? "",
        root: text(payload.root) ?? "",
        since: event.seq,
        received: 0,
        connected: true,
        pid: null,
        command: null,
        startedAt: null,
        initialized: false,
        canLoad: false,
        canResume: false,
        canFork: false,
        stopping: false,
        draining: false,
        absent: false,
      };
      state.home = text(payload.host);
      state.lastReplayed = null;
      return;
    case "runtime.reconnected":
      if (state.run) {
        state.run.connected = true;
        state.run.absent = false;
      }
      return;
    case "runtime.paused":
      if (state.run) state.run.absent = true;
      return;
    case "queue.owner.draining":
      if (state.run) state.run.draining = true;
      return;
    case "queue.owner.drained":
      endRun(state);
      return;
    case "runtime.disconnected":
      if (state.run) state.run.connected = false;
      return;
    case "queue.owner.started":
      if (state.run) {
        state.run.pid = typeof payload.pid === "number" ? payload.pid : null;
        state.run.command = text(payload.command);
        state.run.startedAt = event.at;
      }
      return;
    case "queue.owner.stopped":
      state.run = null;
      // What a host takes with it says nothing about the agent.
      if (payload.expected !== true && payload.lost !== true) state.crashes += 1;
      // Another process may be wanted already while the old one was told to end.
      if (payload.expected !== true || state.agent !== "starting") state.agent = "gone";
      state.asking = {};
      for (const [seq, asked] of Object.entries(state.asked))
        if (asked.connection === undefined) delete state.asked[seq];
      state.lastExit = {
        code: typeof payload.code === "number" ? payload.code : null,
        signal: text(payload.signal),
        at: event.at,
        reason: clip(text(payload.reason) ?? "unknown", KEEP.reasonChars),
      };
      return;
    case "queue.enqueued":
      if (typeof payload.seq === "number")
        state.queue.push({ seq: payload.seq, turnId: text(payload.turnId) });
      return;
    case "queue.dequeued":
      state.queue = state.queue.filter((item) => item.seq !== payload.seq);
      return;
    case "turn.started": {
      const { turnId } = turnNote(event, payload);
      const prompt = typeof payload.prompt === "number" ? payload.prompt : event.seq;
      state.violations = {};
      state.turn = { turnId: turnId ?? "", prompt, startedAt: event.at, cancelled: false };
      startTurn(state.turns, { ...payload, turnId, prompt }, event.at);
      state.context = event.context;
      return;
    }
    case "turn.completed":
      state.crashes = 0;
      return endTurn(state, "completed", turnNote(event, payload), event.at);
    case "turn.cancelled":
      return endTurn(state, "cancelled", turnNote(event, payload), event.at);
    case "turn.failed":
      return endTurn(state, "failed", turnNote(event, payload), event.at);
    case "runtime.noise":
      state.acp.violations.noMessage += 1;
      state.violations.noMessage = (state.violations.noMessage ?? 0) + 1;
      return;
    case "error":
      // A violation is passed on and goes no further.
      if (payload.violation !== undefined) return;
      state.lastError = clip(text(payload.message) ?? "unknown", KEEP.reasonChars);
      if (payload.detailCode === "agent_unavailable" || payload.detailCode === "crash_loop")
        state.agent = "failed";
      return;
  }
}

/** Other systems name the turn in the envelope alone. */
function turnNote({ context }: LogEvent, payload: Payload): TurnNote {
  return { ...payload, turnId: text(payload.turnId) ?? context.turnId };
}

/** A queued prompt may end without having become the turn. */
function endTurn(
  state: SessionState,
  status: "completed" | "cancelled" | "failed",
  note: TurnNote,
  at: number,
): void {
  finishTurn(state.turns, status, note, at);
  if (state.turn?.turnId !== note.turnId) return;
  state.turn = null;
  state.violations = {};
  state.context = { ...state.context, turnId: null };
}

function endRun(state: SessionState): void {
  state.agent = "gone";
  if (state.run) state.run.stopping = true;
}

function forkIn(from: unknown): SessionState["fork"] {
  return isRecord(from) && from.format === "fork" ? { whole: from.whole === true } : null;
}

function readPolicy(payload: Payload): PermissionPolicy {
  const read = PERMISSION_POLICY.safeParse(payload);
  return read.success ? read.data : ASK_ALWAYS;
}

/** A log may come from elsewhere, and its notes may hold anything. */
function text(value: unknown): string | null {
  return typeof value === "string" ? value : null;
}
