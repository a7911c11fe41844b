import { KEEP } from "../../../protocol/limits.ts";
import { ASK_ALWAYS, PERMISSION_POLICY, type PermissionPolicy } from "../../../protocol/permission-policy.ts";
import type { LogEvent, Payload } from "../events/event.ts";
import { clip, isRecord } from "./bounded-values.ts";
import type { Identity, SessionState } from "./state.ts";
import { finishTurn, startTurn, type TurnNote } from "./turn-history.ts";

/** What all other events mean for the state. */

export function applyNote(
  state: SessionState,
  kind: string,
  payload: Readonly<Record<string, unknown>>,
  event: LogEvent,
): void {
  switch (kind) {
    case "session.anticipated":
    case "session.requested":
      // The process of a session that was anticipated is on its way.
      if (!state.identity) state.wish = event.seq;
      state.identity = payload as Identity;
      return;
    case "session.imported":
      // Whose it was elsewhere is part of its history; nothing runs here yet.
      state.identity = payload as Identity;
      state.agent = "gone";
      state.policy = ASK_ALWAYS;
      // A fork that moves before it has run is a fork still.
      state.fork = forkIn(payload.from) ?? state.fork;
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
      // Opened before anybody knew which agents there are: it has the one that came.
      if (state.identity?.agent === "")
        state.identity = { ...state.identity, agent: text(payload.agent) ?? "" };
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
        io: payload.io === "client" ? "client" : "host",
        terminals: [],
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
  return isRecord(from) && typeof from.whole === "boolean" ? { whole: from.whole } : null;
}

function readPolicy(payload: Payload): PermissionPolicy {
  const read = PERMISSION_POLICY.safeParse(payload);
  return read.success ? read.data : ASK_ALWAYS;
}

/** A log may come from elsewhere, and its notes may hold anything. */
function text(value: unknown): string | null {
  return typeof value === "string" ? value : null;
}
