import { type Caller, mayAnswer, type Role, roleOf } from "../../../protocol/caller.ts";
import { parseChildSessionId } from "../../../protocol/child-session-id.ts";
import type { ClientAbility } from "../../../protocol/client-abilities.ts";
import { ErrorCode, errorResponse, type RpcError, resultResponse } from "../../../protocol/errors.ts";
import { MetaKey } from "../../../protocol/extensions.ts";
import {
  type Frame,
  type NotificationFrame,
  paramsOf,
  type RequestFrame,
  type ResponseFrame,
  rewrite,
} from "../../../protocol/frame.ts";
import { parseClientRequestId } from "../../../protocol/ids.ts";
import { textOf } from "../../../protocol/json-value.ts";
import { methodTooLong } from "../../../protocol/jsonrpc-faults.ts";
import { abilityFor } from "../../../protocol/question.ts";
import { isReaderRequest } from "../../../protocol/reader-messages.ts";
import { currentSetup } from "../read/current-setup.ts";
import { badCursor } from "../read/replay.ts";
import { isAskedBy } from "../state/askers.ts";
import type { BroughtMember } from "../state/brought-members.ts";
import type { RequestOfAgent } from "../state/state.ts";
import { openAgentSession, requestProcess } from "./agent-process.ts";
import { cancelRequestsOfAgent, clientAnswer } from "./agent-requests.ts";
import { refuseClient, refusedAnswer } from "./answers.ts";
import type { Batch } from "./batch.ts";
import { refusedMembers } from "./brought-members.ts";
import { close } from "./process-end.ts";
import { dispatch, type NewTurnId, takePrompt } from "./prompts.ts";
import { isQuestionAnswer } from "./questions.ts";
import { cancelQueued, dropQueued, laterMembersRefusal } from "./queue.ts";
import { tooMany } from "./request-limits.ts";
import { isSteering, showSteering } from "./steering.ts";

/**
 * Decisions about the frames of clients. Each function turns one input into events and does nothing else; the readers
 * of the log do the sending.
 */

type Owner = { tenant: string; owner: string; workspace: string; agent: string };

/** A client needs a process before it opens a session, to log in. */
export function anticipate(batch: Batch, owner: Owner): void {
  batch.fact("gateway", "session.anticipated", { ...owner, cwd: "/", request: null });
}

/** A client opens the session, perhaps in the process in which it has logged in. */
export function open(batch: Batch, connection: string, frame: Frame, identity: Owner): void {
  const request = batch.frame("client", "out", frame, { connection, stop: "held" });
  const cwd = textOf(paramsOf(frame).cwd) ?? "/";
  batch.fact("gateway", "session.requested", { ...identity, cwd, request });
  const { agent, run } = batch.state;
  if (agent === "starting" && run?.initialized && !run.stopping) openAgentSession(batch);
  else requestProcess(batch);
}

/**
 * `answering` are the connections that the agent's requests are put to; `abilities` are those of this client. `as` is the
 * lost connection that the client continues.
 */
export type ClientInput = {
  connection: string;
  caller: Caller;
  answering: readonly string[];
  /** The members of a load or resume that are not those of the session, see `broughtBy`. */
  brings?: readonly BroughtMember[];
  as?: string | undefined;
  abilities: readonly ClientAbility[];
};

/** The caller drops frames that a connection sends twice after losing touch with the session. */
export function clientFrame(batch: Batch, client: ClientInput, frame: Frame, newTurnId: NewTurnId): void {
  const { connection } = client;
  if (!maySend(client.caller, frame)) return;
  switch (frame.kind) {
    case "response":
      return answer(batch, client, frame);
    case "notification":
      if (namesChild(frame)) return passToChild(batch, connection, frame);
      if (frame.method === "session/cancel") return cancelTurn(batch, client, frame);
      if (frame.method === "$/cancel_request") return cancelRequest(batch, connection, frame);
      return pass(batch, connection, frame);
    case "request":
      if (namesChild(frame)) return passToChild(batch, connection, frame);
      return clientRequest(batch, client, frame, newTurnId);
    case "invalid":
      batch.frame("client", "out", frame, { connection, stop: "stray" });
  }
}

/** Refuses a frame of a client: a request is answered, and the agent's request gets an error as its answer. */
export function refuseFrame(batch: Batch, client: ClientInput, frame: Frame, error: RpcError): void {
  if (!maySend(client.caller, frame)) return;
  if (frame.kind === "response") answer(batch, client, refusedAnswer(frame, error), true);
  else refuseClient(batch, client.connection, frame, error, roleOf(client.caller));
}

/**
 * A client that may not answer is not asked, so its answer is dropped. An observer may only ask to read: its connection
 * has refused anything else, so nothing is said about it here.
 */
function maySend(caller: Caller, frame: Frame): boolean {
  if (frame.kind === "response") return mayAnswer(caller);
  return roleOf(caller) === "controller" || isReaderRequest(frame);
}

/** `isRefused`: the gateway cannot take the client's answer, and the agent learns the reason. */
function answer(batch: Batch, client: ClientInput, frame: ResponseFrame, isRefused = false): void {
  const { connection, caller, answering } = client;
  const seq = parseClientRequestId(frame.value.id)?.seq;
  const pending = seq === undefined ? undefined : batch.state.awaitingClient[seq];
  if (seq === undefined || pending?.by !== "client" || !isAsked(pending, client)) {
    batch.frame("client", "out", frame, { connection, stop: "stray" });
    return;
  }
  if (pending.question && !isRefused && !isQuestionAnswer(frame)) {
    const isCounted = (pending.declined?.length ?? 0) < DECLINES;
    // The question goes on waiting, for other clients and for people without one.
    batch.frame("client", "out", frame, {
      connection,
      ...(isCounted ? ({ re: seq, stop: "declined" } as const) : ({ stop: "stray" } as const)),
    });
    return;
  }
  const said = [connection, ...(pending.declined ?? [])];
  // A client that fails must not decide for a client that can answer. The error of the last one goes to the agent.
  const another = said.length < DECLINES && answering.some((other) => !said.includes(other));
  if (isError(frame) && !pending.to && !pending.question && another)
    batch.frame("client", "out", frame, { connection, re: seq, stop: "declined" });
  else clientAnswer(batch, { connection, subject: caller.subject }, seq, pending, frame);
}

/** Whether the request was put to the client. */
function isAsked({ to, question }: RequestOfAgent, { connection, abilities }: ClientInput): boolean {
  if (question && !abilities.includes(abilityFor(question.mode))) return false;
  return (to ?? connection) === connection;
}

/** After so many errors no client is expected to answer. */
const DECLINES = 50;

function isError({ value }: ResponseFrame): boolean {
  return value.result === undefined && value.error !== undefined;
}

function clientRequest(
  batch: Batch,
  { connection, caller, brings = [] }: ClientInput,
  frame: RequestFrame,
  newTurnId: NewTurnId,
): void {
  switch (frame.method) {
    case "session/load":
    case "session/resume":
      return attach(batch, connection, frame, roleOf(caller), brings);
    case "session/close":
      return closeFor(batch, connection, frame);
    case "session/prompt":
      return takePrompt(batch, connection, frame, newTurnId);
    default:
      return pass(batch, connection, frame);
  }
}

function namesChild({ sessionId }: Frame): boolean {
  return sessionId !== undefined && parseChildSessionId(sessionId) !== undefined;
}

/**
 * Passes on a frame to the session of a sub-agent. The gateway keeps no such session, so what it serves itself is not
 * there. A process that has ended has no sub-agents any more.
 */
function passToChild(batch: Batch, connection: string, frame: RequestFrame | NotificationFrame): void {
  const { sessionId, agent } = batch.state;
  const isOurs = parseChildSessionId(frame.sessionId ?? "")?.sessionId === sessionId;
  const isServed = frame.kind === "request" && NOT_OF_CHILDREN.has(frame.method);
  if (isOurs && !isServed && agent === "ready") return pass(batch, connection, frame);
  const message = isServed ? `A sub-agent's session has no ${frame.method}` : "There is no such sub-agent";
  refuseClient(batch, connection, frame, { code: ErrorCode.invalidParams, message });
}

const NOT_OF_CHILDREN: ReadonlySet<string> = new Set(["session/prompt", "session/load", "session/resume"]);

/** Passes on any frame but a prompt. The state keeps waiting frames and open requests, so their number is limited. */
function pass(batch: Batch, connection: string, frame: RequestFrame | NotificationFrame): void {
  const { awaitingAgent, queue } = batch.state;
  const held = queue.filter(({ turnId }) => turnId === null).length;
  const open = Object.values(awaitingAgent).filter(({ method }) => method !== "session/prompt").length;
  const waiting = frame.kind === "request" ? Math.max(held, open) : held;
  const refusal =
    methodTooLong(frame, batch.limits.idChars) ??
    tooMany(batch.limits, waiting, "The agent has not answered") ??
    (batch.state.run ? laterMembersRefusal(batch.state.run, frame) : undefined);
  if (refusal) return refuseClient(batch, connection, frame, refusal);
  const seq = batch.nextSeq;
  dispatch(batch, connection, frame, null);
  if (frame.kind === "notification" && isSteering(frame.method)) showSteering(batch, seq, connection);
}

/** Cancels the running turn, whoever asked for it, and the client's own prompts behind it in the queue. */
function cancelTurn(batch: Batch, { connection, as }: ClientInput, frame: Frame): void {
  const { turn, agent, awaitingAgent } = batch.state;
  const names = as === undefined ? [connection] : [connection, as];
  const passes = turn !== null && agent === "ready";
  batch.frame("client", "out", frame, passes ? { connection } : { connection, stop: "gateway" });
  cancelQueued(batch, (seq) => {
    const request = awaitingAgent[seq];
    return request !== undefined && isAskedBy(request, names);
  });
  if (turn) cancelRequestsOfAgent(batch, "session/cancel");
}

/** `$/cancel_request` names a request by the client's own id; the agent knows the request by its sequence number. */
function cancelRequest(batch: Batch, connection: string, frame: Frame): void {
  const span = frame.spans.requestId;
  const id = span && frame.raw.slice(span.start, span.end);
  const [key] =
    Object.entries(batch.state.awaitingAgent).find(
      ([, pending]) => pending.connection === connection && pending.id === id,
    ) ?? [];
  const queued = batch.state.queue.find((item) => String(item.seq) === key);
  if (key === undefined || queued) {
    batch.frame("client", "out", frame, { connection, stop: key === undefined ? "stray" : "gateway" });
  } else {
    batch.frame("client", "out", frame, { connection, requestId: key });
  }
  if (queued) dropQueued(batch, queued, { code: ErrorCode.requestCancelled, message: "Request cancelled" });
}

/**
 * Passes on a login or logout that the client gave another process of the same agent: it holds in all of them. A process
 * that is yet to open the session gets the login when it asks for one.
 */
export function relayLogin(batch: Batch, frame: Frame): void {
  const { run, agent, awaitingAgent } = batch.state;
  const isServing = run?.initialized && !run.stopping && agent !== "starting";
  if (!isServing || Object.keys(awaitingAgent).length >= batch.limits.openRequests)
    return keepLogin(batch, frame);
  batch.frame("gateway", "out", rewrite(frame, { id: String(batch.nextSeq) }));
}

/** Keeps a login of the client for the next process that asks for one. */
export function keepLogin(batch: Batch, frame: Frame): void {
  const raw = rewrite(frame, { id: String(batch.nextSeq) });
  batch.frame("gateway", "out", raw, { stop: "gateway" });
}

/** Attaches a client. The answer has the modes and settings that session/new would have told. */
function attach(
  batch: Batch,
  connection: string,
  frame: RequestFrame,
  role: Role,
  brings: readonly BroughtMember[],
): void {
  const replay = frame.method === "session/load";
  const problem = badCursor(frame, batch.nextSeq);
  const stop = role === "observer" ? "reader" : "gateway";
  const seq = batch.frame("client", "out", frame, { connection, stop });
  const back = { to: connection, re: seq, ...(role === "observer" && ({ stop } as const)) };
  if (problem) {
    const error = errorResponse(frame.idText, { code: ErrorCode.invalidParams, message: problem });
    batch.frame("gateway", "in", error, back);
    return;
  }
  const { run } = batch.state;
  const refused = refusedMembers(run, paramsOf(frame));
  const allowed = brings.filter((member) => refused[member] === undefined);
  const taken = role === "controller" && allowed.length > 0 ? { brings: allowed } : {};
  batch.fact("gateway", "session.loaded", { connection, request: seq, replay, role, ...taken });
  const told = Object.fromEntries(brings.map((member) => [member, refused[member] ?? "next process"]));
  // Without a process the next one is the first that could have them.
  const meta = run && brings.length > 0 ? { _meta: { [MetaKey.opening]: told } } : {};
  const result = { ...currentSetup(batch.state.report, (at) => batch.findFrame(at)), ...meta };
  batch.frame("gateway", "in", resultResponse(frame.idText, result), back);
}

function closeFor(batch: Batch, connection: string, frame: RequestFrame): void {
  const seq = batch.frame("client", "out", frame, { connection, stop: "gateway" });
  if (!batch.state.closed) close(batch, connection);
  batch.frame("gateway", "in", resultResponse(frame.idText, {}), { to: connection, re: seq });
}
