import { ErrorCode, errorResponse, resultResponse } from "../protocol/errors.ts";
import { type Frame, rewrite } from "../protocol/frame.ts";
import { parseClientRequestId } from "../protocol/ids.ts";
import { currentSetup } from "./acp-state.ts";
import { close, wantAgent } from "./agent-life.ts";
import type { Batch } from "./batch.ts";
import { badCursor } from "./replay.ts";
import { badPromptKey, type KeyedPrompt, promptKey } from "./state.ts";
import { cancelPermissions, cancelQueued, dropQueued, promptRefusal } from "./turns.ts";

/**
 * What a session does about what clients say. Each function turns one input into events and nothing else:
 * sending is the business of those who read the log.
 */

export type NewTurnId = () => string;

/** A client opens the session: its session/new frame comes first in the log. */
export function open(
  batch: Batch,
  connection: string,
  frame: Frame,
  identity: { tenant: string; owner: string; workspace: string; agent: string },
): void {
  const request = batch.frame("client", "out", frame, { connection, stop: "held" });
  const cwd = (frame.value.params as { cwd: string }).cwd;
  batch.note("gateway", "session.requested", { ...identity, cwd, request });
}

/** The same client's frame may come again after a reconnect between the objects; the caller filters those. */
export function clientFrame(batch: Batch, connection: string, frame: Frame, newTurnId: NewTurnId): void {
  switch (frame.kind) {
    case "response":
      return clientAnswer(batch, connection, frame);
    case "notification":
      if (frame.method === "session/cancel") return cancelTurn(batch, connection, frame);
      if (frame.method === "$/cancel_request") return cancelRequest(batch, connection, frame);
      return dispatch(batch, connection, frame, null);
    case "request":
      return clientRequest(batch, connection, frame, newTurnId);
    case "invalid":
      batch.frame("client", "out", frame, { connection, stop: "stray" });
  }
}

function clientAnswer(batch: Batch, connection: string, frame: Frame): void {
  const seq = parseClientRequestId(frame.value.id)?.seq;
  const asking = seq === undefined ? undefined : batch.state.asking[seq];
  if (seq === undefined || !asking || asking.by !== "client") {
    batch.frame("client", "out", frame, { connection, stop: "stray" });
    return;
  }
  const answer = batch.frame("client", "out", frame, { connection, re: seq, id: asking.id });
  if (asking.method === "session/request_permission") {
    const outcome = (frame.value.result as { outcome?: unknown } | undefined)?.outcome ?? null;
    batch.note("gateway", "permission.responded", { request: seq, answer, outcome, by: connection });
  }
}

function clientRequest(batch: Batch, connection: string, frame: Frame, newTurnId: NewTurnId): void {
  switch (frame.method) {
    case "session/load":
    case "session/resume":
      return attach(batch, connection, frame);
    case "session/close":
      return closeFor(batch, connection, frame);
    case "session/prompt":
      return prompt(batch, connection, frame, newTurnId);
    default:
      return dispatch(batch, connection, frame, null);
  }
}

/** A prompt runs once, however often a client that is unsure sends it under the same idempotency key. */
function prompt(batch: Batch, connection: string, frame: Frame, newTurnId: NewTurnId): void {
  const { state } = batch;
  const known = state.prompts.find(({ key }) => key === promptKey(frame));
  if (known) return repeatPrompt(batch, connection, frame, known);
  const problem = badPromptKey(frame);
  const refusal = problem ? { code: ErrorCode.invalidParams, message: problem } : promptRefusal(state);
  if (!refusal) return dispatch(batch, connection, frame, newTurnId());
  const seq = batch.frame("client", "out", frame, { connection, stop: "gateway" });
  batch.frame("gateway", "in", errorResponse(frame.idText as string, refusal), { to: connection, re: seq });
}

/** The answer there is goes to this client as well; the one to come will. */
function repeatPrompt(batch: Batch, connection: string, frame: Frame, { seq, answer }: KeyedPrompt): void {
  const id = frame.idText as string;
  if (answer === null) {
    batch.frame("client", "out", frame, { connection, stop: "gateway", repeats: seq });
    return;
  }
  const re = batch.frame("client", "out", frame, { connection, stop: "gateway" });
  const archived = { code: ErrorCode.notFound, message: "The prompt has run; its answer is in the archive" };
  const raw =
    answer > batch.state.archivedUpTo
      ? rewrite(batch.frameAt(answer).frame, { id })
      : errorResponse(id, archived);
  batch.frame("gateway", "in", raw, { to: connection, re });
}

/** Sends a frame on to the agent, or puts it in the queue when it has to wait. */
function dispatch(batch: Batch, connection: string, frame: Frame, turnId: string | null): void {
  const { state } = batch;
  const context = turnId === null ? state.context : { ...state.context, turnId };
  const waits =
    state.agent !== "ready" || (turnId !== null && (state.turn !== null || state.queue.length > 0));
  const seq = batch.frame(
    "client",
    "out",
    frame,
    waits ? { connection, stop: "held" } : { connection },
    context,
  );
  if (waits) {
    batch.note("gateway", "queue.enqueued", { seq, turnId, position: state.queue.length }, context);
    wantAgent(batch);
  } else if (turnId !== null) {
    batch.note("gateway", "turn.started", { turnId, prompt: seq }, context);
  }
}

/** Stop means stop: the running turn is cancelled, and what waited behind it does not start. */
function cancelTurn(batch: Batch, connection: string, frame: Frame): void {
  const { turn, agent } = batch.state;
  const passes = turn !== null && agent === "ready";
  batch.frame("client", "out", frame, passes ? { connection } : { connection, stop: "gateway" });
  cancelQueued(batch);
  if (turn) cancelPermissions(batch);
}

/** `$/cancel_request` names a request by the client's own id; the agent knows it by its place in the log. */
function cancelRequest(batch: Batch, connection: string, frame: Frame): void {
  const span = frame.spans.requestId;
  const id = span && frame.raw.slice(span.start, span.end);
  const [key] =
    Object.entries(batch.state.asked).find(
      ([, asked]) => asked.connection === connection && asked.id === id,
    ) ?? [];
  const queued = batch.state.queue.find((item) => String(item.seq) === key);
  if (key === undefined || queued) {
    batch.frame("client", "out", frame, { connection, stop: key === undefined ? "stray" : "gateway" });
  } else {
    batch.frame("client", "out", frame, { connection, requestId: key });
  }
  if (queued) dropQueued(batch, queued, { code: ErrorCode.requestCancelled, message: "Request cancelled" });
}

/** A client reads along. The answer carries what session/new would have said of modes and settings. */
function attach(batch: Batch, connection: string, frame: Frame): void {
  const replay = frame.method === "session/load";
  const problem = badCursor(frame, batch.nextSeq);
  const seq = batch.frame("client", "out", frame, { connection, stop: "gateway" });
  if (problem) {
    const error = errorResponse(frame.idText as string, { code: ErrorCode.invalidParams, message: problem });
    batch.frame("gateway", "in", error, { to: connection, re: seq });
    return;
  }
  batch.note("gateway", "session.loaded", { connection, request: seq, replay });
  batch.frame("gateway", "in", resultResponse(frame.idText as string, currentSetup(batch.state.acp)), {
    to: connection,
    re: seq,
  });
}

function closeFor(batch: Batch, connection: string, frame: Frame): void {
  const seq = batch.frame("client", "out", frame, { connection, stop: "gateway" });
  if (!batch.state.closed) close(batch, connection);
  batch.frame("gateway", "in", resultResponse(frame.idText as string, {}), { to: connection, re: seq });
}
