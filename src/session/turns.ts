import { ErrorCode, errorResponse, type RpcError, resultResponse } from "../protocol/errors.ts";
import { type Frame, rewrite } from "../protocol/frame.ts";
import type { Batch } from "./batch.ts";
import type { Route } from "./event.ts";
import type { Asked, Queued } from "./state.ts";

/** The life of the agent process and of the turns it works on. */

/** A process is wanted again after the last one ended or could not be had. */
export function wantAgent(batch: Batch): void {
  if (batch.state.agent === "gone" || batch.state.agent === "failed") {
    batch.note("gateway", "runtime.reconnect_attempt", { reason: "work is waiting" });
    // The process may be there and only have refused to open a session.
    if (batch.state.run?.initialized) bind(batch);
  }
}

/** The process is up: opens the session in it, for the client that asked or, after a restart, for none. */
export function bind(batch: Batch): void {
  const { identity, run, asked } = batch.state;
  if (!identity || !run) return;
  const { frame } = batch.frameAt(identity.request);
  const raw = rewrite(frame, { id: String(batch.nextSeq), cwd: JSON.stringify(run.root) });
  batch.frame("gateway", "out", raw, asked[identity.request] ? { re: identity.request } : {});
}

/** The agent answered our session/new. */
export function bound(batch: Batch, frame: Frame, re: number, asked: Asked): void {
  const { acpSessionId: previous } = batch.state.context;
  const route = answerRoute(re, asked);
  if (frame.sessionId === undefined) {
    batch.frame("agent", "in", frame, route);
    const error = (frame.value.error ?? {
      code: ErrorCode.internal,
      message: "The agent gave no session id",
    }) as RpcError;
    unavailable(batch, `The agent did not open a session: ${error.message}`);
    return;
  }
  const context = { ...batch.state.context, acpSessionId: frame.sessionId };
  batch.frame("agent", "in", frame, route, context);
  batch.note(
    "gateway",
    previous === null ? "session.created" : "session.rebound",
    { acpSessionId: frame.sessionId, previous },
    context,
  );
  drainQueue(batch);
}

/** A response goes to the client that asked, under the id it knows; the gateway's own questions stay here. */
export function answerRoute(re: number, { connection, id }: Asked): Route {
  return connection === undefined || id === undefined ? { re, stop: "gateway" } : { re, to: connection, id };
}

/** Sends what waited, in order; a prompt goes when there is no turn before it. */
function drainQueue(batch: Batch): void {
  const { state } = batch;
  for (;;) {
    const next = state.queue.find((item) => item.turnId === null || state.turn === null);
    if (!next || state.agent !== "ready") return;
    const { seq, turnId } = next;
    const context = turnId === null ? state.context : { ...state.context, turnId };
    batch.note("gateway", "queue.dequeued", { seq, turnId }, context);
    if (turnId !== null) batch.note("gateway", "turn.started", { turnId, prompt: seq }, context);
  }
}

/** The agent answered the prompt. */
export function endTurn(batch: Batch, response: Frame): void {
  const { turn } = batch.state;
  if (turn) {
    const { turnId, prompt } = turn;
    const result = response.value.result as { stopReason?: unknown } | undefined;
    const stopReason = result?.stopReason ?? null;
    if (!result)
      batch.note("gateway", "turn.failed", {
        turnId,
        prompt,
        reason: "agent_error",
        error: response.value.error,
      });
    else
      batch.note("gateway", stopReason === "cancelled" ? "turn.cancelled" : "turn.completed", {
        turnId,
        prompt,
        stopReason,
      });
  }
  drainQueue(batch);
}

/** The agent process is gone, with everything it had not answered. */
export function processEnded(
  batch: Batch,
  exit: { code: number | null; signal: string | null; error?: string | undefined; stderr: string },
): void {
  const { state } = batch;
  const before = state.agent;
  const reason = exit.error ?? (exit.signal ? `killed by ${exit.signal}` : `exit code ${exit.code}`);
  batch.note("host", "queue.owner.stopped", { run: state.run?.id ?? null, ...exit, reason });
  if (before === "failed") return;
  if (before === "starting") {
    unavailable(batch, `The agent could not be started: ${reason}`, exit.stderr);
    return;
  }
  lose(batch, "agent_exited", {
    code: ErrorCode.internal,
    message: `The agent process ended: ${reason}`,
    data: { stderr: exit.stderr },
  });
  if (state.queue.length > 0) wantAgent(batch);
}

/** The host came back without this process, so what became of its turn cannot be known. */
export function processLost(batch: Batch, reason: string): void {
  const { state } = batch;
  if (!state.run) return;
  batch.note("gateway", "queue.owner.stopped", { run: state.run.id, code: null, signal: null, reason });
  lose(batch, "outcome_unknown", {
    code: ErrorCode.internal,
    message: `The agent process was lost: ${reason}`,
    data: { outcome: "unknown" },
  });
  if (state.queue.length > 0) wantAgent(batch);
}

/** No process could be had: nothing that waits for it will run. */
export function unavailable(batch: Batch, message: string, stderr = ""): void {
  batch.note("gateway", "error", {
    origin: "agent",
    code: ErrorCode.internal,
    detailCode: "agent_unavailable",
    message,
    stderr,
  });
  const error = { code: ErrorCode.internal, message, ...(stderr ? { data: { stderr } } : {}) };
  for (const item of [...batch.state.queue]) dropQueued(batch, item, error);
  lose(batch, "agent_unavailable", error);
}

/** Fails the running turn and answers every request the agent had been given. */
function lose(batch: Batch, reason: string, error: RpcError): void {
  const { turn, queue } = batch.state;
  const waiting = new Set(queue.map((item) => String(item.seq)));
  for (const key of Object.keys(batch.state.asked))
    if (!waiting.has(key)) settle(batch, Number(key), { error });
  if (turn) batch.note("gateway", "turn.failed", { turnId: turn.turnId, prompt: turn.prompt, reason, error });
}

export function dropQueued(batch: Batch, { seq, turnId }: Queued, error: RpcError): void {
  batch.note("gateway", "queue.dequeued", { seq, turnId, dropped: error.message });
  settle(batch, seq, { error });
  if (turnId !== null)
    batch.note("gateway", "turn.failed", { turnId, prompt: seq, reason: "dropped", error });
}

/** Answers a request in the agent's place. */
export function settle(batch: Batch, seq: number, answer: { result: unknown } | { error: RpcError }): void {
  const asked = batch.state.asked[seq];
  // Nobody waits for a request of our own, or for a notification that had been queued.
  if (asked?.connection === undefined || asked.id === undefined) return;
  const raw =
    "error" in answer ? errorResponse(asked.id, answer.error) : resultResponse(asked.id, answer.result);
  batch.frame("gateway", "in", raw, { to: asked.connection, re: seq });
}

export function answerPermission(batch: Batch, seq: number, id: string, outcome: unknown, by: string): void {
  const answer = batch.frame("gateway", "out", resultResponse(id, { outcome }), { re: seq });
  batch.note("gateway", "permission.responded", { request: seq, answer, outcome, by });
}
