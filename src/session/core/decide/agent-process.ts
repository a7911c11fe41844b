import { ErrorCode } from "../../../protocol/errors.ts";
import { gatewayNotice } from "../../../protocol/extensions.ts";
import { paramsOf, type ResponseFrame, resultOf, rewrite } from "../../../protocol/frame.ts";
import { type JsonObject, recordOf } from "../../../protocol/json-value.ts";
import { rebasePath } from "../../../protocol/rebase-path.ts";
import type { RequestToAgent, Run, SessionState } from "../state/state.ts";
import { cancelRequestsOfAgent, endRequestsOfAgent } from "./agent-requests.ts";
import type { Batch } from "./batch.ts";
import {
  answerRoute,
  cancelQueued,
  drainQueue,
  dropQueued,
  failRunning,
  settle,
  stopForDrain,
} from "./turns.ts";

/** The life of the agent's processes: requested, asked to open the session, ended, requested again. */

/** Requests a process after the last one ended or none could be started. */
export function requestProcess(batch: Batch): void {
  const { state } = batch;
  if (state.agent !== "gone" && state.agent !== "failed") return;
  // The process still runs: on another host its successor would work on the same files beside it.
  if (state.run?.draining && state.run.stopping) return;
  // After a while even a broken agent gets another chance.
  const crashes = batch.at - (state.lastExit?.at ?? 0) > batch.limits.crashMemoryMs ? 0 : state.crashes;
  if (crashes >= batch.limits.crashLimit) {
    const message = `The agent ended ${crashes} times in a row. A prompt after a pause starts it again`;
    return unavailable(batch, message, state.lastExit?.reason, "crash_loop");
  }
  const delayMs = crashes < 2 ? 0 : batch.limits.crashBackoffMs * 2 ** (crashes - 2);
  const attempt = { attempt: crashes + 1, delayMs };
  // The process may be alive and only have refused to open a session.
  const same = state.run?.initialized === true && !state.run.stopping;
  batch.fact("gateway", "runtime.reconnect_attempt", same ? { ...attempt, process: "same" } : attempt);
  if (same) openAgentSession(batch);
}

/**
 * Opens the agent session in a process that is up. The first time the process gets the client's own session/new. Later
 * the agent continues its old session if it can, because it may remember more than the log could tell it.
 */
export function openAgentSession(batch: Batch, method = openingMethod(batch.state)): void {
  const { identity, run, awaitingAgent, context } = batch.state;
  if (identity?.request == null || !run) return;
  const { frame } = batch.frameAt(identity.request);
  const id = String(batch.nextSeq);
  const directories = directoriesThere(paramsOf(frame), run.root);
  if (method === "session/new") {
    const additional = directories && { additionalDirectories: JSON.stringify(directories) };
    const raw = rewrite(frame, { id, cwd: JSON.stringify(run.root), ...additional });
    const waiting = Object.keys(awaitingAgent).find(
      (seq) => awaitingAgent[seq]?.method === "session/new" && awaitingAgent[seq]?.id,
    );
    batch.frame("gateway", "out", raw, waiting === undefined ? {} : { re: Number(waiting) });
    return;
  }
  const params = {
    ...paramsOf(frame),
    ...(directories && { additionalDirectories: directories }),
    cwd: run.root,
    sessionId: context.acpSessionId,
  };
  batch.frame("gateway", "out", JSON.stringify({ jsonrpc: "2.0", id: Number(id), method, params }));
}

/**
 * The client's additional directories with the host's paths. A directory within the client's `cwd` is part of the
 * workspace. Any other path stays as it is, because the host may have a directory of that name.
 */
function directoriesThere(params: JsonObject, root: string): unknown[] | undefined {
  const { cwd, additionalDirectories: given } = params;
  if (typeof cwd !== "string" || cwd === "/" || !Array.isArray(given)) return undefined;
  const there = given.map((path: unknown) =>
    typeof path === "string" ? rebasePath(path, cwd, root) : undefined,
  );
  return there.some((path) => path !== undefined) ? given.map((path, i) => there[i] ?? path) : undefined;
}

function openingMethod({ context, run, fork }: SessionState): string {
  if (context.acpSessionId === null) return "session/new";
  if (fork) return fork.whole && run?.canFork ? "session/fork" : "session/new";
  if (run?.canResume) return "session/resume";
  return run?.canLoad ? "session/load" : "session/new";
}

/** Whether no client has opened the session, or none could: its process can serve the next client that tries. */
export function isUnopened({ closed, context, awaitingAgent }: SessionState): boolean {
  return !closed && context.acpSessionId === null && !Object.values(awaitingAgent).some(isOpening);
}

export function isOpening({ method, connection }: RequestToAgent): boolean {
  return method === "session/new" || (connection === undefined && REOPENING.has(method));
}

const REOPENING: ReadonlySet<string> = new Set(["session/load", "session/resume", "session/fork"]);

/** The agent answered the request to open the session. */
export function agentSessionOpened(
  batch: Batch,
  frame: ResponseFrame,
  re: number,
  pending: RequestToAgent,
): void {
  const { context } = batch.state;
  const previous = context.acpSessionId;
  const anew = pending.method === "session/new" || pending.method === "session/fork";
  const failed = anew ? frame.sessionId === undefined : "error" in frame.value;
  if (failed) {
    batch.frame("agent", "in", frame, answerRoute(re, pending));
    // Some agents advertise session/load and fail to do it: a new agent session is better than none.
    if (pending.method !== "session/new") return openAgentSession(batch, "session/new");
    const { error } = frame.value;
    const why = error == null ? "it gave no session id" : recordOf(error).message;
    return unavailable(batch, `The agent did not open a session: ${why}`);
  }
  if (!anew) {
    batch.frame("agent", "in", frame, answerRoute(re, pending));
    batch.fact("gateway", "session.loaded", { acpSessionId: previous, method: pending.method });
  } else {
    const acpSessionId = frame.sessionId as string;
    const now = { ...context, acpSessionId };
    batch.frame("agent", "in", frame, answerRoute(re, pending), now);
    batch.fact(
      "gateway",
      previous === null ? "session.created" : "session.rebound",
      { acpSessionId, previous },
      now,
    );
    if (previous !== null && pending.method === "session/new") tellRebound(batch);
  }
  logAgentSessionId(batch, frame);
  drainQueue(batch);
}

/** Some adapters report the id that their harness has for the session. The id is for people; nothing depends on it. */
function logAgentSessionId(batch: Batch, frame: ResponseFrame): void {
  const { context } = batch.state;
  const meta = recordOf(resultOf(frame)._meta);
  const agentSessionId = [meta.agentSessionId, meta.sessionId].find(
    (id) => typeof id === "string" && id !== "",
  );
  if (typeof agentSessionId !== "string" || agentSessionId === context.agentSessionId) return;
  const payload = { agentSessionId, previous: context.agentSessionId };
  batch.fact("gateway", "session.agent_session_id.updated", payload, { ...context, agentSessionId });
}

/** Tells clients that the conversation continues with an agent that does not remember it. */
function tellRebound(batch: Batch): void {
  tell(batch, "session.rebound", "The agent was started again and does not remember this conversation");
}

/** Sends every client a notice that answers no request. */
function tell(batch: Batch, event: string, message: string): void {
  batch.frame("gateway", "in", gatewayNotice(batch.state.sessionId, event, message));
}

/** The agent process ended, with every request it had not answered. */
export function processEnded(
  batch: Batch,
  exit: { code: number | null; signal: string | null; error?: string | undefined; stderr: string },
): void {
  const { state } = batch;
  const before = state.agent;
  // A session that the process had not opened before its host left is opened elsewhere.
  const leaving = state.run?.draining === true && before === "starting";
  const expected = state.run?.stopping === true || leaving;
  const how = exit.signal
    ? `killed by ${exit.signal}`
    : exit.code === null
      ? undefined
      : `exit code ${exit.code}`;
  const reason = [exit.error, how].filter(Boolean).join(", ");
  endRequestsOfAgent(batch, `the agent process ended: ${reason}`, () =>
    batch.fact("host", "queue.owner.stopped", { run: state.run?.id ?? null, ...exit, reason, expected }),
  );
  if (leaving) return processRequestLost(batch, reason);
  if (expected) return leftHost(batch);
  if (before === "failed") return;
  if (before === "starting")
    return unavailable(batch, `The agent could not be started: ${reason}`, exit.stderr);
  const message = `The agent process ended: ${reason}`;
  logFailure(batch, "agent_exited", message, exit.stderr);
  const data = { outcome: "unknown", stderr: exit.stderr };
  failRunning(batch, "agent_exited", { code: ErrorCode.internal, message, data });
  if (state.queue.length > 0) requestProcess(batch);
}

/** The process ended as it was told to. Frames that wait need another process. */
function leftHost(batch: Batch): void {
  if (batch.state.agent !== "starting")
    failRunning(batch, "stopped", { code: ErrorCode.internal, message: "The agent process was stopped" });
  if (batch.state.queue.length > 0) requestProcess(batch);
}

/** The host is draining: the process ends after its turn, or at once if no turn is running. */
export function drain(batch: Batch, host: string): void {
  const { run, agent, turn } = batch.state;
  if (run?.host !== host || run.draining || run.stopping) return;
  batch.fact("gateway", "queue.owner.draining", { run: run.id, host });
  if (agent !== "starting" && !turn) stopForDrain(batch);
}

/** The host has been away for long, and the session's files with it. The session waits, because the host may return. */
export function hostAbsent(batch: Batch, host: string, reason: string): void {
  const { run } = batch.state;
  if (run?.host !== host || run.absent) return;
  if (run.stopping) return processLost(batch, reason);
  hostGone(batch, reason);
  batch.fact("gateway", "runtime.paused", { run: run.id, host, reason });
  tell(batch, "runtime.paused", `Paused: ${reason}. The session goes on when it is back`);
}

/** The socket to the host is lost; the process may be alive. */
export function hostGone(batch: Batch, reason: string): void {
  if (batch.state.run?.connected)
    batch.fact("gateway", "runtime.disconnected", { run: batch.state.run.id, reason });
}

/** The host's socket for the known process is back. */
export function hostBack(batch: Batch, run: string, host: string): void {
  const wasAbsent = batch.state.run?.absent;
  batch.fact("gateway", "runtime.reconnected", { run, host });
  if (wasAbsent) tell(batch, "runtime.reconnected", `Host ${host} is back; the session goes on`);
}

/** The host that was to start the process is gone, so the process is requested again. */
export function processRequestLost(batch: Batch, reason: string): void {
  if (batch.state.agent === "starting" && !batch.state.run)
    batch.fact("gateway", "runtime.reconnect_attempt", {
      attempt: batch.state.crashes + 1,
      delayMs: 0,
      reason,
    });
}

/**
 * The process is lost with its host, or with the host's previous start, so the outcome of its turn is unknown. The next
 * process opens a session that the lost one had not opened.
 */
export function processLost(batch: Batch, reason: string): void {
  const { run, agent } = batch.state;
  if (!run) return;
  runGone(batch, run, reason, run.stopping);
  if ((agent === "starting" && !run.stopping) || batch.state.queue.length > 0) requestProcess(batch);
}

/** The requested process arrived before its predecessor reported its end. */
export function processReplaced(batch: Batch): void {
  if (batch.state.run) runGone(batch, batch.state.run, "another process has taken its place", true);
}

function runGone(batch: Batch, { id: run }: Run, reason: string, expected: boolean): void {
  const opening = batch.state.agent === "starting";
  endRequestsOfAgent(batch, `the agent process was lost: ${reason}`, () =>
    batch.fact("gateway", "queue.owner.stopped", {
      run,
      code: null,
      signal: null,
      reason,
      expected,
      lost: true,
    }),
  );
  const message = `The agent process was lost: ${reason}`;
  if (!expected && !opening) logFailure(batch, "agent_lost", message);
  const error = { code: ErrorCode.internal, message, data: { outcome: "unknown" } };
  failRunning(batch, "agent_lost", error, opening ? "session/new" : undefined);
}

/** No process could be started: every frame that waits for one fails. */
export function unavailable(
  batch: Batch,
  message: string,
  stderr = "",
  detailCode = "agent_unavailable",
): void {
  const error = { code: ErrorCode.internal, message, ...(stderr ? { data: { stderr } } : {}) };
  logFailure(batch, detailCode, message, stderr);
  for (const item of [...batch.state.queue]) dropQueued(batch, item, error);
  failRunning(batch, detailCode, error);
}

function logFailure(batch: Batch, detailCode: string, message: string, stderr = ""): void {
  const { internal: code } = ErrorCode;
  batch.fact("gateway", "error", { origin: "agent", code, detailCode, message, stderr });
}

/**
 * The idle time of the process is over. If the process had work meanwhile, its lease is renewed. Otherwise the process
 * ends, and the session is paused until the next prompt.
 */
export function checkIdle(batch: Batch): void {
  const { state } = batch;
  if (!state.run || state.run.stopping) return;
  const busy = state.turn !== null || state.queue.length > 0;
  const until = (busy ? batch.at : state.activeAt) + batch.limits.idleMs;
  if (until > batch.at) {
    batch.fact("gateway", "queue.owner.lease_renewed", { run: state.run.id, until });
    return;
  }
  batch.fact("gateway", "queue.owner.idle_expired", { run: state.run.id, idleMs: batch.at - state.activeAt });
  endAbsent(batch);
}

/** Gives up a process that is told to end on a host that has been away for long. */
function endAbsent(batch: Batch): void {
  const { run } = batch.state;
  if (run?.absent && run.stopping) processLost(batch, `host ${run.host} is gone`);
}

/** Ends the work and frees the process. The history stays, and a client that loads or resumes the session reopens it. */
export function close(batch: Batch, by: string): void {
  const { turn } = batch.state;
  cancelQueued(batch);
  for (const item of [...batch.state.queue])
    dropQueued(batch, item, { code: ErrorCode.requestCancelled, message: "The session was closed" });
  cancelRequestsOfAgent(batch, "session/close");
  if (turn) {
    settle(batch, turn.prompt, { result: { stopReason: "cancelled" } });
    batch.fact("gateway", "turn.cancelled", {
      turnId: turn.turnId,
      prompt: turn.prompt,
      stopReason: "cancelled",
    });
  }
  failRunning(batch, "closed", { code: ErrorCode.requestCancelled, message: "The session was closed" });
  batch.fact("gateway", "session.closed", { by });
  endAbsent(batch);
}
