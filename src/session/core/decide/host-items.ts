import { ErrorCode, errorResponse, type RpcError } from "../../../protocol/errors.ts";
import {
  isFault,
  type NotificationFrame,
  paramsOf,
  type RequestFrame,
  type ResponseFrame,
  readFrame,
} from "../../../protocol/frame.ts";
import { type HostEvent, type HostHead, NOISE_CHARS, parseHostEvent } from "../../../protocol/host-wire.ts";
import type { Span } from "../../../protocol/json-text.ts";
import { ioOf } from "../../../protocol/methods.ts";
import type { Route } from "../events/event.ts";
import { chunkText } from "../state/fold-frame.ts";
import type { SessionState } from "../state/state.ts";
import { agentSessionOpened, isOpening, openAgentSession } from "./agent-process.ts";
import { cancelledByAgent, logClientOperation, openToClients } from "./agent-requests.ts";
import { recordWithViolations } from "./agent-violations.ts";
import { answerRoute } from "./answers.ts";
import type { Batch } from "./batch.ts";
import { type IoClient, routeToClient } from "./client-files.ts";
import { drain, hostBack, hostGone, processReplaced } from "./host-departure.ts";
import { answerPermission } from "./permissions.ts";
import { rulingOn } from "./policy.ts";
import { processEnded } from "./process-end.ts";
import { drainForProcess, isForProcess } from "./queue.ts";
import { idTooLong, methodTooLong, tooMany } from "./request-limits.ts";
import { endTurn } from "./turns.ts";

/** Decisions about the items of a run: frames of the agent, and events of its host. */

type HostHello = Extract<HostHead, { t: "hello" }>;

/** A host's socket says hello, for the known process or for a new one. */
export function hostHello(batch: Batch, { t: _, draining, ...hello }: HostHello): void {
  const { run } = batch.state;
  if (run?.id === hello.run) {
    // If the session crashed meanwhile, the log does not have the loss of the earlier socket.
    hostGone(batch, "connection lost");
    hostBack(batch, hello.run, hello.host);
  } else {
    processReplaced(batch);
    batch.fact("gateway", "runtime.connected", hello);
  }
  if (draining) drain(batch, hello.host);
}

/** Whether a process that says hello is the one the session has or waits for. */
export function isWelcome(state: SessionState, { run, processRequest }: HostHello): boolean {
  return state.run?.id === run || (state.agent === "starting" && state.processRequest === processRequest);
}

/**
 * One item of the run. Each item becomes exactly one event whose source is the agent or the host, followed by its
 * consequences. `clients` are the clients that can serve files and terminals.
 */
export function hostItem(batch: Batch, line: string, clients: () => readonly IoClient[] = () => []): void {
  if (line.startsWith("[")) {
    const event = parseHostEvent(line);
    return event ? hostEvent(batch, event) : noise(batch, line);
  }
  const frame = readFrame(line);
  if (isFault(frame)) return noise(batch, line);
  switch (frame.kind) {
    case "notification":
      return agentNotification(batch, frame);
    case "request":
      return agentRequest(batch, frame, clients);
    case "response":
      return agentAnswer(batch, frame);
    case "invalid":
      recordWithViolations(batch, () => batch.frame("agent", "in", frame, { stop: "stray" }));
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
      return noise(batch, body);
    case "exit":
      return processEnded(batch, body);
  }
}

/** Output that is no JSON object is logged as text. */
function noise(batch: Batch, text: string): void {
  recordWithViolations(batch, () =>
    batch.fact("host", "runtime.noise", { text: text.slice(0, NOISE_CHARS) }),
  );
}

function hostSent(batch: Batch, raw: string): void {
  const frame = readFrame(raw);
  if (isFault(frame)) return noise(batch, raw);
  batch.frame("host", "out", frame, { stop: "sent" });
}

function agentNotification(batch: Batch, frame: NotificationFrame): void {
  if (frame.method !== "$/cancel_request") {
    recordWithViolations(batch, () => batch.frame("agent", "in", frame, replayRoute(batch.state, frame)));
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
  batch.frame("agent", "in", frame, pending.to === undefined ? { re } : { re, to: pending.to });
  cancelledByAgent(batch, re, pending);
}

/**
 * Updates between the gateway's session/load and its answer are the agent's memory of a conversation that the log has
 * already. They are logged as replay, and clients do not get them.
 */
function replayRoute(state: SessionState, frame: NotificationFrame): Route {
  if (state.agent !== "starting" || frame.method !== "session/update") return {};
  const opening = Object.values(state.awaitingAgent).find(isOpening)?.method;
  if (
    (opening === "session/new" || opening === "session/fork") &&
    frame.sessionId !== state.context.acpSessionId
  )
    return { early: true };
  if (opening !== "session/load") return {};
  const text = chunkText(frame);
  return { stop: text !== null && text === state.lastReplayed ? "duplicate" : "replay" };
}

function agentRequest(batch: Batch, frame: RequestFrame, clients: () => readonly IoClient[]): void {
  const { limits } = batch;
  const { method } = frame;
  const open = waitsForClients(batch.state, frame) ? openToClients(batch.state).length : 0;
  const refusal =
    idTooLong(limits, frame) ??
    methodTooLong(limits, frame) ??
    tooMany(limits, open, "Clients have not answered");
  if (refusal) return refuse(batch, frame, refusal);
  if (isHostServed(batch.state, method))
    recordWithViolations(batch, () => batch.frame("agent", "in", frame, { stop: "host" }));
  else if (ioOf(method)) askIo(batch, frame, clients());
  else if (method === "session/request_permission") askPermission(batch, frame);
  else if (method === "elicitation/create" && frame.spans.requestId)
    askOne(batch, frame, frame.spans.requestId);
  else recordWithViolations(batch, () => batch.frame("agent", "in", frame));
}

function waitsForClients(state: SessionState, { method, value }: RequestFrame): boolean {
  if (method === "session/request_permission") return rulingOn(state, value.params) === undefined;
  return !isHostServed(state, method);
}

/** The host serves files and terminals in place of a client, unless the workspace's settings say otherwise. */
function isHostServed({ run }: SessionState, method: string): boolean {
  return ioOf(method) !== undefined && run?.io !== "client";
}

function askIo(batch: Batch, frame: RequestFrame, clients: readonly IoClient[]): void {
  const found = routeToClient(batch.state, frame, clients);
  if ("refusal" in found) return refuse(batch, frame, found.refusal);
  recordWithViolations(batch, () => batch.frame("agent", "in", frame, found.route));
}

function refuse(batch: Batch, frame: RequestFrame, error: RpcError): void {
  const re = batch.frame("agent", "in", frame, { stop: "gateway" });
  batch.frame("gateway", "out", errorResponse(frame.idText, error), { re });
}

/** Asks clients for a permission, unless the workspace's policy has the answer. */
function askPermission(batch: Batch, frame: RequestFrame): void {
  const params = paramsOf(frame);
  const ruling = rulingOn(batch.state, params);
  const seq = recordWithViolations(batch, () =>
    batch.frame("agent", "in", frame, ruling ? { stop: "gateway" } : {}),
  );
  batch.fact("gateway", "permission.requested", {
    request: seq,
    toolCall: params.toolCall ?? null,
    options: params.options ?? [],
  });
  if (ruling) answerPermission(batch, seq, ruling.outcome, ruling.decision);
}

/** Sends a question about a client's request to that client, which knows the request by another id. */
function askOne(batch: Batch, frame: RequestFrame, { start, end }: Span): void {
  const { connection, id } = batch.state.awaitingAgent[frame.raw.slice(start, end)] ?? {};
  if (connection !== undefined && id !== undefined) {
    batch.frame("agent", "in", frame, { to: connection, requestId: id });
    return;
  }
  refuse(batch, frame, { code: ErrorCode.invalidParams, message: "No client waits for that request" });
}

function hostAnswer(batch: Batch, raw: string): void {
  const frame = readFrame(raw);
  if (isFault(frame)) return noise(batch, raw);
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
  if (isOpening(pending)) return agentSessionOpened(batch, frame, seq, pending);
  batch.frame("agent", "in", frame, answerRoute(seq, pending));
  const { method, connection } = pending;
  if (isForProcess(method) && connection !== undefined && "result" in frame.value)
    batch.fact("gateway", "agent.login", { request: seq, method, connection });
  if (pending.method === "session/prompt") endTurn(batch, seq, pending, frame);
}
