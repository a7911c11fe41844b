import { errorResponse, type RpcError } from "../../../protocol/errors.ts";
import { isReservedMethod } from "../../../protocol/extensions.ts";
import {
  type FrameFault,
  type InvalidFrame,
  isFault,
  mustReadFrame,
  type NotificationFrame,
  paramsOf,
  type ResponseFrame,
  readFrame,
} from "../../../protocol/frame.ts";
import { type HostEvent, NOISE_CHARS, parseHostEvent } from "../../../protocol/host-wire.ts";
import { recordOf, textOf } from "../../../protocol/json-value.ts";
import { FAULTS } from "../../../protocol/jsonrpc-faults.ts";
import {
  type MessageHead,
  readHead,
  UNREADABLE_ANSWER,
  unreadableAnswer,
} from "../../../protocol/message-head.ts";
import { isLogin, isMcpMessage, isUnknownIo } from "../../../protocol/methods.ts";
import { abilityFor } from "../../../protocol/question.ts";
import type { Route } from "../events/event.ts";
import { chunkKey, chunkText, isConversation, isOfSession } from "../state/fold-frame.ts";
import type { SessionState } from "../state/state.ts";
import { STATE_BUDGET } from "../state/state-budget.ts";
import { isToolCall } from "../state/tool-calls.ts";
import { isSetter } from "../state/wanted-settings.ts";
import { agentSessionOpened, isOpening, loggedIn, openAgentSession, tell } from "./agent-process.ts";
import { cancelledByAgent, logClientOperation } from "./agent-requests.ts";
import { logBadAnswer, recordWithViolations } from "./agent-violations.ts";
import { answerRoute } from "./answers.ts";
import { agentRequest } from "./asking.ts";
import type { Batch } from "./batch.ts";
import type { IoClient } from "./client-files.ts";
import { changesNamedPlan, tellWholePlan } from "./plain-plan.ts";
import { processEnded } from "./process-end.ts";
import { drainForProcess } from "./queue.ts";
import { tellTitle } from "./session-change.ts";
import { restoreSettings, shownSettings, tellChanges } from "./settings.ts";
import { recordToolCall, terminalEnded, terminalOutput } from "./shown-terminals.ts";
import { isSteering, steeringAnswered } from "./steering.ts";
import { endTurn } from "./turns.ts";

/** Decisions about the items of a run: frames of the agent, and events of its host. */

/**
 * One item of the run. Each item becomes exactly one event whose source is the agent or the host. Events of the gateway
 * follow, its consequences, or precede it, if clients need them first. `clients` are the clients that can serve files and terminals.
 */
export function hostItem(batch: Batch, line: string, clients: () => readonly IoClient[] = () => []): void {
  if (line.startsWith("[")) {
    const event = parseHostEvent(line);
    if (event) hostEvent(batch, event);
    else noise(batch, line);
    return;
  }
  const frame = readFrame(line);
  if (isFault(frame)) return unreadable(batch, line, frame);
  switch (frame.kind) {
    case "notification":
      return agentNotification(batch, frame);
    case "request":
      return agentRequest(batch, frame, clients);
    case "response":
      return agentAnswer(batch, frame);
    case "invalid":
      return noMessage(batch, frame);
  }
}

function hostEvent(batch: Batch, [kind, body]: HostEvent): void {
  switch (kind) {
    case "started":
      batch.fact("host", "queue.owner.started", { run: batch.state.run?.id ?? null, ...body });
      return;
    case "sent":
      return hostSent(batch, body);
    case "answer":
      return hostAnswer(batch, body);
    case "noise":
      noise(batch, body);
      return;
    case "dropped":
      return messageDropped(batch, body);
    case "terminal_output":
      return terminalOutput(batch, body);
    case "terminal_exit":
      return terminalEnded(batch, body);
    case "exit":
      return processEnded(batch, body);
  }
}

/** Output that is no JSON object is logged as text. */
function noise(batch: Batch, text: string): number {
  return recordWithViolations(batch, () =>
    batch.fact("host", "runtime.noise", { text: text.slice(0, NOISE_CHARS) }),
  );
}

/** The host could not send a message of the agent. Clients would otherwise take the conversation for complete. */
function messageDropped(batch: Batch, reason: string): void {
  const message = `A message of the agent is missing: ${reason.slice(0, NOISE_CHARS)}`;
  batch.fact("host", "error", { origin: "host", code: null, detailCode: "message_dropped", message });
  tell(batch, "agent.violation", message);
}

/** Nobody must wait for a message that the gateway does not take: an error comes in place of the answer. */
function unreadable(batch: Batch, line: string, read: FrameFault): void {
  const head = headOf(line, read);
  const error = FAULTS[read.fault];
  if (head?.kind === "response") return failAnswer(batch, head.idText, error.message, error.code);
  const re = noise(batch, line);
  if (head) refuseUnread(batch, head.idText, error, re);
}

/** An object that is no message of JSON-RPC. Its id tells whether somebody waits: for its answer, or for ours. */
function noMessage(batch: Batch, frame: InvalidFrame): void {
  const { idText = "null", value } = frame;
  const isRequest = "method" in value;
  if (!isRequest && batch.state.awaitingAgent[Number(idText)])
    return failAnswer(batch, idText, "it has neither a result nor an error");
  const re = recordWithViolations(batch, () => batch.frame("agent", "in", frame, { stop: "stray" }));
  if (isRequest && idText !== "null") refuseUnread(batch, idText, FAULTS["not-object"], re);
}

/** Takes an error in the place of the agent's answer. */
function failAnswer(batch: Batch, idText: string, reason: string, code?: number): void {
  const answer = mustReadFrame(unreadableAnswer(idText, reason, code));
  if (answer.kind === "response") agentAnswer(batch, answer);
}

/** Answers a request that is in the log as noise. */
function refuseUnread(batch: Batch, idText: string, error: RpcError, re: number): void {
  batch.frame("gateway", "out", errorResponse(idText, error), { re });
  const message = `A request of the agent cannot be read: ${error.message}`;
  batch.fact("gateway", "error", {
    ...{ origin: "agent", code: error.code, detailCode: "unreadable_request", message },
  });
}

function headOf(line: string, read: FrameFault): MessageHead | undefined {
  if (read.fault === "too-complex") return readHead(line);
  if (read.fault === "parse") return line.trimEnd().endsWith("}") ? readHead(line) : undefined;
  if (read.fault !== "ambiguous") return undefined;
  const { kind, idText } = read.frame;
  return kind === "request" || kind === "response" ? { kind, idText } : undefined;
}

function hostSent(batch: Batch, raw: string): void {
  const frame = readFrame(raw);
  if (isFault(frame)) noise(batch, raw);
  else batch.frame("host", "out", frame, { stop: "sent" });
}

function agentNotification(batch: Batch, frame: NotificationFrame): void {
  // The gateway's own messages to clients: no agent speaks in its name.
  if (isReservedMethod(frame.method) || isUnknownIo(frame.method) || isMcpMessage(frame.method)) {
    batch.frame("agent", "in", frame, { stop: "stray" });
    return;
  }
  if (frame.method !== "$/cancel_request") {
    agentUpdate(batch, frame, { ...replayRoute(batch.state, frame), ...receiversOf(frame.method) });
    if (batch.state.title !== undefined && setsTitle(frame)) tellTitle(batch);
    return;
  }
  const span = frame.spans.requestId;
  const id = span && frame.raw.slice(span.start, span.end);
  const [key] = Object.entries(batch.state.awaitingClient).find(([, pending]) => pending.id === id) ?? [];
  const pending = key === undefined ? undefined : batch.state.awaitingClient[key];
  if (pending?.by !== "client") {
    batch.frame("agent", "in", frame, { stop: "stray" });
    return;
  }
  const re = Number(key);
  batch.frame("agent", "in", frame, {
    re,
    ...(pending.to !== undefined && { to: pending.to }),
    ...(pending.question && { having: abilityFor(pending.question.mode) }),
  });
  cancelledByAgent(batch, re, pending);
}

function setsTitle(frame: NotificationFrame): boolean {
  const update = recordOf(paramsOf(frame).update);
  return update.sessionUpdate === "session_info_update" && update.title !== undefined;
}

/** Records a notification, and whatever clients need that cannot show it as it is. */
function agentUpdate(batch: Batch, frame: NotificationFrame, route: Route): void {
  const record = (more: Route) =>
    recordWithViolations(batch, () => batch.frame("agent", "in", frame, { ...route, ...more }));
  const { state } = batch;
  const isShown = route.stop === undefined && isOfSession(state, frame, state.context);
  const { update } = frame.method === "session/update" && isShown ? paramsOf(frame) : {};
  if (isToolCall(update)) recordToolCall(batch, update, record);
  else record({});
  if (update !== undefined && changesNamedPlan(frame)) tellWholePlan(batch);
}

/** The end of a visit to a page concerns clients that could show the page. */
function receiversOf(method: string): Route {
  return method === "elicitation/complete" ? { having: abilityFor("url") } : {};
}

/**
 * An update before the answer to session/new waits for that answer, because clients do not know the session before.
 * Updates between the gateway's session/load and its answer are the agent's memory of a conversation that the log has
 * already. They are logged as replay, and clients do not get them. ACP lets no agent replay on session/resume; the
 * conversation of an agent that does so all the same is taken alike, and its settings count. A workspace can have chunks that repeat the one before
 * them kept from clients as well; by default they pass, because "ha" "ha" is a legitimate answer.
 */
function replayRoute(state: SessionState, frame: NotificationFrame): Route {
  if (frame.method !== "session/update") return {};
  if (state.agent !== "starting") return isRepeated(state, frame) ? { stop: "duplicate" } : {};
  const opening = Object.values(state.awaitingAgent).find(isOpening)?.method;
  if (
    (opening === "session/new" || opening === "session/fork") &&
    frame.sessionId !== state.context.acpSessionId
  )
    return isFull(state) ? { early: true } : { early: true, stop: "held" };
  if (opening !== "session/load" && !(opening === "session/resume" && isConversation(frame))) return {};
  const text = chunkText(frame);
  const isDuplicate = text !== null && text === state.lastReplayed && state.run?.duplicateChunks !== "off";
  return { stop: isDuplicate ? "duplicate" : "replay" };
}

/** Whether the chunk repeats the chunk right before it, where the workspace wants such chunks kept from clients. */
function isRepeated({ run }: SessionState, frame: NotificationFrame): boolean {
  if (run?.duplicateChunks !== "stream" || !run.lastChunk) return false;
  return chunkKey(frame) === run.lastChunk;
}

/** Whether no more updates can wait for the answer that opens the agent session. */
function isFull({ run }: SessionState): boolean {
  return (run?.earlyUpdates?.length ?? 0) >= STATE_BUDGET.earlyUpdates;
}

function hostAnswer(batch: Batch, raw: string): void {
  const frame = readFrame(raw);
  if (isFault(frame)) {
    noise(batch, raw);
    return;
  }
  const [key, pending] =
    Object.entries(batch.state.awaitingClient).find(([, a]) => a.id === frame.idText && a.by === "host") ??
    [];
  const answer = batch.frame(
    "host",
    "out",
    frame,
    key === undefined ? { stop: "stray" } : { re: Number(key) },
  );
  if (key !== undefined && pending)
    logClientOperation(batch, Number(key), pending, answer, !("error" in frame.value));
}

function agentAnswer(batch: Batch, frame: ResponseFrame): void {
  const { state } = batch;
  if (state.run && !state.run.initialized) {
    // The first answer of any process is that to the host's own initialize.
    batch.frame("agent", "in", frame, { stop: "host" });
    if (!state.run?.initialized) return;
    drainForProcess(batch);
    openAgentSession(batch);
    return;
  }
  const seq = Number(frame.idText);
  const pending = state.awaitingAgent[seq];
  if (!pending) {
    batch.frame("agent", "in", frame, { stop: "stray" });
    return;
  }
  const { method, connection } = pending;
  if (isOpening(pending)) {
    const at = batch.nextSeq;
    agentSessionOpened(batch, frame, seq, pending);
    return logBadAnswer(batch, at, frame, method);
  }
  const shown = isSetter(method) ? shownSettings(state) : undefined;
  logBadAnswer(batch, batch.frame("agent", "in", frame, answerRoute(seq, pending)), frame, method);
  noteUnreadable(batch, frame, method);
  if (shown) tellChanges(batch, shown, connection);
  if (shown && connection === undefined && state.wanted) restoreSettings(batch);
  if (isLogin(method) && connection !== undefined && "result" in frame.value)
    batch.fact("gateway", "agent.login", { request: seq, method, connection });
  if (loggedIn(batch, seq)) return openAgentSession(batch);
  if (isSteering(method)) steeringAnswered(batch, seq, frame, connection);
  if (pending.method === "session/prompt") endTurn(batch, seq, pending, frame);
}

/** The client learns of the error by the answer, and everybody else by a fact. */
function noteUnreadable(batch: Batch, { value }: ResponseFrame, method: string): void {
  const { code, message, data } = recordOf(value.error);
  if (recordOf(data).detailCode !== UNREADABLE_ANSWER) return;
  batch.fact("gateway", "error", {
    origin: "agent",
    code: typeof code === "number" ? code : null,
    detailCode: UNREADABLE_ANSWER,
    message: `${method}: ${textOf(message) ?? ""}`,
  });
}
