import { ErrorCode, resultResponse } from "../protocol/errors.ts";
import type { Frame } from "../protocol/frame.ts";
import { parseClientRequestId } from "../protocol/ids.ts";
import type { Batch } from "./batch.ts";
import { answerPermission, dropQueued, settle, wantAgent } from "./turns.ts";

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
      if (frame.method === "session/load" || frame.method === "session/resume")
        return attach(batch, connection, frame);
      return dispatch(batch, connection, frame, frame.method === "session/prompt" ? newTurnId() : null);
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
  const { state } = batch;
  const { turn } = state;
  batch.frame(
    "client",
    "out",
    frame,
    turn && state.agent === "ready" ? { connection } : { connection, stop: "gateway" },
  );
  for (const { seq, turnId } of state.queue.filter((item) => item.turnId !== null)) {
    batch.note("gateway", "queue.dequeued", { seq, turnId, dropped: "cancelled" });
    settle(batch, seq, { result: { stopReason: "cancelled" } });
    batch.note("gateway", "turn.cancelled", { turnId, prompt: seq, stopReason: "cancelled" });
  }
  if (!turn) return;
  // A client that cancels owes a "cancelled" to each open permission; nobody may be there to say it.
  for (const [key, asking] of Object.entries(state.asking)) {
    if (asking.method !== "session/request_permission") continue;
    answerPermission(batch, Number(key), asking.id, { outcome: "cancelled" }, "session/cancel");
  }
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

function attach(batch: Batch, connection: string, frame: Frame): void {
  const replay = frame.method === "session/load";
  const seq = batch.frame("client", "out", frame, { connection, stop: "gateway" });
  batch.note("gateway", "session.loaded", { connection, request: seq, replay });
  batch.frame("gateway", "in", resultResponse(frame.idText as string, {}), { to: connection, re: seq });
}
