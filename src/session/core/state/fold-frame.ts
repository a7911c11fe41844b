import { parseChildSessionId } from "../../../protocol/child-session-id.ts";
import { type Frame, paramsOf, type RequestFrame, resultOf } from "../../../protocol/frame.ts";
import { type JsonObject, recordOf } from "../../../protocol/json-value.ts";
import { ioOf, isForProcess } from "../../../protocol/methods.ts";
import { QUESTION } from "../../../protocol/question.ts";
import { promptKey } from "../decide/idempotency-key.ts";
import { type Context, type FrameEvent, historyCharsOf, type Route } from "../events/event.ts";
import { foldResult, foldUpdate } from "./agent-report.ts";
import { choiceIn } from "./agent-settings.ts";
import { foldAnnouncement, isAnnouncement, isChild } from "./child-sessions.ts";
import { addTerminal, dropTerminal } from "./client-terminals.ts";
import { permissionOf } from "./pending-permission.ts";
import { questionOf } from "./pending-question.ts";
import type { RequestOfAgent, RequestToAgent, SessionState } from "./state.ts";
import { STATE_BUDGET } from "./state-budget.ts";
import {
  addServedTerminal,
  findTerminal,
  foldToolCallTerminals,
  forgetFinished,
  outputTold,
  setOutput,
  terminalOrder,
} from "./terminals.ts";
import { findToolCall, foldPermissionToolCall, isToolCall } from "./tool-calls.ts";
import { addTurn, countUpdate, findTurn } from "./turn-history.ts";
import type { Violations } from "./violations.ts";
import { noteSetting, settingName } from "./wanted-settings.ts";

/** Folds the frames of clients, agents and the gateway. */

export function applyFrame(state: SessionState, event: FrameEvent): void {
  const { frame, route, seq } = event;
  if (route.stop !== "reader") state.activeAt = event.at;
  state.historyChars += historyCharsOf(event);
  if (event.direction === "out") {
    if (frame.method === "session/prompt") rememberPrompt(state, frame, event);
    if (frame.kind === "response" && route.re !== undefined) settleRequestOfAgent(state, event, route.re);
    if (event.source === "gateway") foldLogin(state, frame.method, seq);
    if (frame.kind === "request" && !isAnsweredHere(route)) {
      if (event.source === "gateway" && frame.method === "authenticate" && state.agent === "starting")
        if (state.run) state.run.login = seq;
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

/** The gateway has a login of the client from another process, or this process has accepted one. A logout ends it. */
function foldLogin(state: SessionState, method: string | undefined, seq: number): void {
  if (method === "authenticate") state.login = seq;
  if (method === "logout") delete state.login;
}

/** Whether no agent gets the request, or has got it already. */
function isAnsweredHere({ stop }: Route): boolean {
  return stop === "gateway" || stop === "reader" || stop === "sent";
}

function settleRequestOfAgent(state: SessionState, { route, frame }: FrameEvent, seq: number): void {
  const { stop, connection } = route;
  const { awaitingClient, run } = state;
  const open = awaitingClient[seq];
  const result = resultOf(frame);
  if (run && open?.method === "terminal/create" && connection !== undefined)
    addTerminal(run, result, connection);
  if (open?.order) addServedTerminal(state, result, open.order, connection);
  if (open?.method === "terminal/output") setOutput(state, open.terminal, result.output);
  if (stop !== "declined") delete awaitingClient[seq];
  else if (open && connection !== undefined) open.declined = [...(open.declined ?? []), connection];
}

/**
 * Whether a frame names another session, and not that of a sub-agent. Before the agent has opened the session, its id is
 * not known.
 */
function isForeign(state: SessionState, { frame, source, route, context }: FrameEvent): boolean {
  if (source !== "agent" || frame.kind === "response" || frame.sessionId === undefined) return false;
  if (state.agent !== "ready" || context.acpSessionId === null || route.early || route.stop === "replay")
    return false;
  return frame.sessionId !== context.acpSessionId && !isChild(state, frame.sessionId);
}

function countInTurn(state: SessionState, before: Violations): void {
  const now = state.report.violations;
  for (const kind in now) {
    const more = now[kind as keyof Violations] - before[kind as keyof Violations];
    if (more > 0)
      state.violations[kind as keyof Violations] = (state.violations[kind as keyof Violations] ?? 0) + more;
  }
}

function applyAnswer(state: SessionState, { frame, route, source, seq, at }: FrameEvent): void {
  const { run } = state;
  if (route.re !== undefined) {
    const pending = state.awaitingAgent[route.re];
    if (pending && !pending.child && source === "agent" && "result" in frame.value) {
      foldResult(state.report, pending.method, pending.choice, frame.value.result, seq, at);
      noteSetting(state.wanted, "held", pending.setting);
      if (pending.connection !== undefined) foldLogin(state, pending.method, route.re);
    }
    delete state.awaitingAgent[route.re];
    const prompt = state.prompts.find((known) => known.seq === route.re);
    if (prompt) prompt.answer ??= seq;
  }
  if (run && !run.initialized && source === "agent") {
    const { loadSession, sessionCapabilities } = recordOf(resultOf(frame).agentCapabilities);
    const { resume, fork, close, delete: remove } = recordOf(sessionCapabilities);
    run.initialized = frame.value.result !== undefined;
    run.canLoad = loadSession === true;
    run.canResume = resume != null;
    run.canFork = fork != null;
    if (close != null) run.canClose = true;
    if (remove != null) run.canDelete = true;
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

/** Whether an update is part of the conversation, which the log has for ever, and not of the agent's settings. */
export function isConversation(frame: Frame): boolean {
  const { update } = paramsOf(frame);
  return isToolCall(update) || CONVERSATION.has(String(recordOf(update).sessionUpdate));
}

const CONVERSATION: ReadonlySet<string> = new Set([
  ...TEXT_CHUNKS,
  ...["plan", "plan_update", "plan_removed", "compaction_update", "compaction_summary_chunk"],
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
  const setting = route.connection === undefined ? settingName(method, frame.value.params) : undefined;
  if (setting !== undefined) pending.setting = setting;
  noteSetting(state.wanted, "asked", setting);
  if (isProcessRequest(frame)) pending.process = true;
  if (frame.sessionId !== undefined && parseChildSessionId(frame.sessionId)) pending.child = true;
  return pending;
}

/** Whether a frame is for the agent's process and not for its session. */
export function isProcessRequest({ kind, method, sessionId }: Frame): boolean {
  return kind === "request" && sessionId === undefined && isForProcess(method ?? "");
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
  if (ioOf(frame.method) === "terminal" && !pending.hidden) {
    const { terminalId } = paramsOf(frame);
    if (frame.method === "terminal/create") pending.order = terminalOrder(paramsOf(frame));
    else if (findTerminal(state, terminalId)) pending.terminal = terminalId as string;
  }
  if (frame.method === "terminal/release" && state.run) dropTerminal(state.run, frame.value.params);
  if (frame.method === "session/request_permission") {
    const params = paramsOf(frame);
    pending.permission = permissionOf(params, seq, Object.keys(state.awaitingClient).length);
    foldPermissionToolCall(state.report, params.toolCall, seq, at);
    foldTerminals(state, recordOf(params.toolCall), route, seq);
  }
  // A question to one client about its own request needs no ability here: the client was chosen for having it.
  if (frame.method === QUESTION && route.having !== undefined)
    pending.question = questionOf(paramsOf(frame), seq, Object.keys(state.awaitingClient).length);
  state.awaitingClient[seq] = pending;
}

/** Whether an update is about this session. Before the agent has opened the session, its id is not known. */
export function isOfSession(
  { agent }: SessionState,
  { sessionId }: Frame,
  { acpSessionId }: Context,
): boolean {
  return sessionId === acpSessionId || acpSessionId === null || agent !== "ready";
}

/** Runs for every chunk that the agent streams. Updates that it replays after a restart were counted before. */
function applyAgentUpdate(state: SessionState, event: FrameEvent): void {
  const { frame, route, source, context } = event;
  if (source === "gateway") return foldPlainContent(state, recordOf(paramsOf(frame).update));
  if (route.stop !== undefined && route.stop !== "held") return;
  if (route.stop === "held" && state.run)
    state.run.earlyUpdates = [...(state.run.earlyUpdates ?? []), event.seq].slice(-STATE_BUDGET.earlyUpdates);
  if (isAnnouncement(frame) && !isForeign(state, event)) foldAnnouncement(state, frame);
  if (!isOfSession(state, frame, context)) return;
  const { report, turn } = state;
  const { update } = paramsOf(frame);
  const calls = report.toolCalls.total;
  foldUpdate(report, update, event.seq, event.at);
  if (isToolCall(update)) foldTerminals(state, update, route, event.seq);
  if (state.run?.duplicateChunks === "stream") state.run.lastChunk = chunkKey(frame);
  const record = turn && findTurn(state.turns, turn);
  if (record) countUpdate(record, update, report.toolCalls.total - calls);
}

function foldTerminals(state: SessionState, toolCall: JsonObject, { plain }: Route, seq: number): void {
  foldToolCallTerminals(state, toolCall, seq);
  if (plain === "before") outputTold(state, toolCall.toolCallId);
  forgetIfEnded(state, toolCall.toolCallId);
}

/** The gateway has told clients the output of a tool call's terminals as text. */
function foldPlainContent(state: SessionState, { sessionUpdate, toolCallId, content }: JsonObject): void {
  if (sessionUpdate !== "tool_call_update" || content === undefined) return;
  outputTold(state, toolCallId);
  forgetIfEnded(state, toolCallId);
}

function forgetIfEnded(state: SessionState, toolCallId: unknown): void {
  if (!state.terminals) return;
  if ((findToolCall(state.report, toolCallId)?.endedAt ?? null) !== null) forgetFinished(state, toolCallId);
}
