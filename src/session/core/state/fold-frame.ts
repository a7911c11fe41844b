import { type Frame, paramsOf, type RequestFrame, resultOf } from "../../../protocol/frame.ts";
import { recordOf } from "../../../protocol/json-value.ts";
import { promptKey } from "../decide/idempotency-key.ts";
import { type FrameEvent, historyCharsOf, type Route } from "../events/event.ts";
import { foldResult, foldUpdate } from "./agent-report.ts";
import { choiceIn } from "./agent-settings.ts";
import { addTerminal, dropTerminal } from "./client-terminals.ts";
import { permissionOf } from "./pending-permission.ts";
import type { RequestOfAgent, RequestToAgent, SessionState } from "./state.ts";
import { STATE_BUDGET } from "./state-budget.ts";
import { foldPermissionToolCall } from "./tool-calls.ts";
import { addTurn, countUpdate, findTurn } from "./turn-history.ts";
import type { Violations } from "./violations.ts";

/** Folds the frames of clients, agents and the gateway. */

export function applyFrame(state: SessionState, event: FrameEvent): void {
  const { frame, route, seq } = event;
  if (route.stop !== "reader") state.activeAt = event.at;
  state.historyChars += historyCharsOf(event);
  if (event.direction === "out") {
    if (frame.method === "session/prompt") rememberPrompt(state, frame, event);
    if (frame.kind === "response" && route.re !== undefined) settleRequestOfAgent(state, event, route.re);
    if (frame.kind === "request" && !isAnsweredHere(route)) {
      if (frame.method === "session/prompt") acceptPrompt(state, event);
      state.awaitingAgent[seq] = requestToAgent(state, frame, route);
      if (route.re !== undefined) delete state.awaitingAgent[route.re];
    }
    return;
  }
  const before = event.source === "agent" ? { ...state.report.violations } : undefined;
  if (isForeign(state, event)) state.report.violations.foreignSession += 1;
  if (frame.kind === "invalid") state.report.violations.noMessage += 1;
  if (frame.kind === "request" && event.source === "agent") applyAgentRequest(state, frame, event);
  if (frame.kind === "response") applyAnswer(state, event);
  if (route.stop === "replay") state.lastReplayed = chunkText(frame);
  if (frame.method === "session/update") applyAgentUpdate(state, event);
  if (before) countInTurn(state, before);
}

/** Whether no agent gets the request, or has got it already. */
function isAnsweredHere({ stop }: Route): boolean {
  return stop === "gateway" || stop === "reader" || stop === "sent";
}

function settleRequestOfAgent(
  { awaitingClient, run }: SessionState,
  { route, frame }: FrameEvent,
  seq: number,
): void {
  const { stop, connection } = route;
  const open = awaitingClient[seq];
  if (run && open?.method === "terminal/create" && connection !== undefined)
    addTerminal(run, frame.value.result, connection);
  if (stop !== "declined") delete awaitingClient[seq];
  else if (open && connection !== undefined) open.declined = [...(open.declined ?? []), connection];
}

/** Whether a frame names another session. Before the agent has opened the session, its id is not known. */
function isForeign({ agent }: SessionState, { frame, source, route, context }: FrameEvent): boolean {
  if (source !== "agent" || frame.kind === "response" || frame.sessionId === undefined) return false;
  if (agent !== "ready" || context.acpSessionId === null || route.early || route.stop === "replay")
    return false;
  return frame.sessionId !== context.acpSessionId;
}

function countInTurn(state: SessionState, before: Violations): void {
  const now = state.report.violations;
  for (const kind in now) {
    const more = now[kind as keyof Violations] - before[kind as keyof Violations];
    if (more > 0)
      state.violations[kind as keyof Violations] = (state.violations[kind as keyof Violations] ?? 0) + more;
  }
}

function applyAnswer(state: SessionState, { frame, route, source, seq }: FrameEvent): void {
  const { run } = state;
  if (route.re !== undefined) {
    const pending = state.awaitingAgent[route.re];
    if (pending && source === "agent" && "result" in frame.value)
      foldResult(state.report, pending.method, pending.choice, frame.value.result, seq);
    delete state.awaitingAgent[route.re];
    const prompt = state.prompts.find((known) => known.seq === route.re);
    if (prompt) prompt.answer ??= seq;
  }
  if (run && !run.initialized && source === "agent") {
    const { loadSession, sessionCapabilities } = recordOf(resultOf(frame).agentCapabilities);
    const { resume, fork } = recordOf(sessionCapabilities);
    run.initialized = frame.value.result !== undefined;
    run.canLoad = loadSession === true;
    run.canResume = resume != null;
    run.canFork = fork != null;
  }
}

function rememberPrompt(state: SessionState, frame: Frame, { route, seq }: FrameEvent): void {
  const original = route.repeats === undefined ? undefined : state.awaitingAgent[route.repeats];
  if (original && route.connection !== undefined && frame.idText !== undefined) {
    original.also = [...(original.also ?? []), { connection: route.connection, id: frame.idText }];
  }
  const key = promptKey(frame);
  if (key === null || route.stop === "gateway") return;
  state.prompts.push({ key, seq, answer: null });
  if (state.prompts.length > STATE_BUDGET.promptKeys) state.prompts.shift();
}

/** The text of a message chunk that is short enough to compare; null for any other frame. */
export function chunkText(frame: Frame): string | null {
  const { text } = recordOf(recordOf(paramsOf(frame).update).content);
  return typeof text === "string" && text.length <= STATE_BUDGET.replayedChars ? text : null;
}

/** A text chunk as the next chunk is compared with it: null for any other update, which resets the comparison. */
export function chunkKey(frame: Frame): string | null {
  const text = chunkText(frame);
  const { sessionUpdate } = recordOf(paramsOf(frame).update);
  return text === null || !TEXT_CHUNKS.has(String(sessionUpdate)) ? null : `${sessionUpdate} ${text}`;
}

const TEXT_CHUNKS: ReadonlySet<string> = new Set([
  "agent_message_chunk",
  "agent_thought_chunk",
  "user_message_chunk",
]);

/** A request of the gateway may carry out a client's request; the answer then goes to that client. */
function requestToAgent(state: SessionState, frame: RequestFrame, route: Route): RequestToAgent {
  const { method } = frame;
  const original = route.re === undefined ? undefined : state.awaitingAgent[route.re];
  if (original) return { ...original, method };
  const pending: RequestToAgent =
    route.connection === undefined ? { method } : { method, connection: route.connection, id: frame.idText };
  const choice = choiceIn(method, frame.value.params);
  if (choice !== undefined) pending.choice = choice;
  return pending;
}

function acceptPrompt(state: SessionState, { frame, seq, at, context, requestId }: FrameEvent): void {
  const { params } = frame.value;
  addTurn(state.turns, { turnId: context.turnId, prompt: seq, at, requestId, params });
}

function applyAgentRequest(state: SessionState, frame: RequestFrame, { route, seq, at }: FrameEvent): void {
  const pending: RequestOfAgent = {
    method: frame.method,
    id: frame.idText,
    by: route.stop === "host" ? "host" : "client",
    since: at,
  };
  if (route.to !== undefined) pending.to = route.to;
  if (route.stop === "gateway") pending.hidden = true;
  if (frame.method === "terminal/release" && state.run) dropTerminal(state.run, frame.value.params);
  if (frame.method === "session/request_permission") {
    const params = paramsOf(frame);
    pending.permission = permissionOf(params, seq, Object.keys(state.awaitingClient).length);
    foldPermissionToolCall(state.report, params.toolCall, seq, at);
  }
  state.awaitingClient[seq] = pending;
}

/** Runs for every chunk that the agent streams. Updates that it replays after a restart were counted before. */
function applyAgentUpdate(state: SessionState, event: FrameEvent): void {
  const { frame, route, source, context } = event;
  if (source === "gateway" || (route.stop !== undefined && route.stop !== "held")) return;
  if (route.stop === "held" && state.run)
    state.run.earlyUpdates = [...(state.run.earlyUpdates ?? []), event.seq].slice(-STATE_BUDGET.earlyUpdates);
  if (frame.sessionId !== context.acpSessionId && context.acpSessionId !== null && state.agent === "ready")
    return;
  const { report, turn } = state;
  const { update } = paramsOf(frame);
  const calls = report.toolCalls.total;
  foldUpdate(report, update, event.seq, event.at);
  if (state.run?.duplicateChunks === "stream") state.run.lastChunk = chunkKey(frame);
  const record = turn && findTurn(state.turns, turn);
  if (record) countUpdate(record, update, report.toolCalls.total - calls);
}
