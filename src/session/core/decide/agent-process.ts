import { ErrorCode } from "../../../protocol/errors.ts";
import { gatewayNotice } from "../../../protocol/extensions.ts";
import { paramsOf, type ResponseFrame, resultOf, rewrite } from "../../../protocol/frame.ts";
import { type JsonObject, recordOf } from "../../../protocol/json-value.ts";
import { rebasePath } from "../../../protocol/rebase-path.ts";
import type { RequestToAgent, Run, SessionState } from "../state/state.ts";
import { cancelRequestsOfAgent, endRequestsOfAgent } from "./agent-requests.ts";
import type { Batch } from "./batch.ts";
import { answerRoute, cancelQueued, drainQueue, dropQueued, failRunning, leave, settle } from "./turns.ts";

/** The life of the agent's processes: wanted, bound to the session, ended, wanted again. */

/** A process is wanted again after the last one ended or could not be had. */
export function requestProcess(batch: Batch): void {
  const { state } = batch;
  if (state.agent !== "gone" && state.agent !== "failed") return;
  // On another host its successor would run beside it, on the same files.
  if (state.run?.draining && state.run.stopping) return;
  // Once in a while even a broken agent deserves a new chance.
  const crashes = batch.at - (state.lastExit?.at ?? 0) > batch.limits.crashMemoryMs ? 0 : state.crashes;
  if (crashes >= batch.limits.crashLimit) {
    const message = `The agent ended ${crashes} times in a row; it is started again after a pause, or when the cause is mended`;
    return unavailable(batch, message, state.lastExit?.reason, "crash_loop");
  }
  const delayMs = crashes < 2 ? 0 : batch.limits.crashBackoffMs * 2 ** (crashes - 2);
  const attempt = { attempt: crashes + 1, delayMs };
  // The process may be there and only have refused to open a session.
  const same = state.run?.initialized === true && !state.run.stopping;
  batch.fact("gateway", "runtime.reconnect_attempt", same ? { ...attempt, process: "same" } : attempt);
  if (same) openAgentSession(batch);
}

/**
 * The process is up: opens the session in it. The first time that is the client's own session/new; later
 * the agent is asked for its old session if it can, because it may remember more than we could tell it.
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
 * A client's further directories as the agent has them, if any is within the client's own: that is the workspace.
 * Any other is passed on as it is, for the host may have it under the same name.
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

/** No client has opened it yet, or none could: its process may be of use to the next one that tries. */
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
    // Some agents advertise session/load and cannot do it: a new session is better than none.
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

/** Some adapters tell the id their harness has for the session. It is for people; nothing depends on it. */
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

/** The conversation goes on with an agent that does not remember it; the user should know. */
function tellRebound(batch: Batch): void {
  tell(batch, "session.rebound", "The agent was started again and does not remember this conversation");
}

/** Says something to every client that no client has asked for. */
function tell(batch: Batch, event: string, message: string): void {
  batch.frame("gateway", "in", gatewayNotice(batch.state.sessionId, event, message));
}

/** The agent process is gone, with everything it had not answered. */
export function processEnded(
  batch: Batch,
  exit: { code: number | null; signal: string | null; error?: string | undefined; stderr: string },
): void {
  const { state } = batch;
  const before = state.agent;
  // What could not be opened before its host had to go is opened elsewhere.
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

/** The process ended as it was told to; what waits needs another one. */
function leftHost(batch: Batch): void {
  if (batch.state.agent !== "starting")
    failRunning(batch, "stopped", { code: ErrorCode.internal, message: "The agent process was stopped" });
  if (batch.state.queue.length > 0) requestProcess(batch);
}

/** The host wants to leave: the process ends after its turn, at once if there is none. */
export function drain(batch: Batch, host: string): void {
  const { run, agent, turn } = batch.state;
  if (run?.host !== host || run.draining || run.stopping) return;
  batch.fact("gateway", "queue.owner.draining", { run: run.id, host });
  if (agent !== "starting" && !turn) leave(batch);
}

/** The host has been away for long, and the session's files with it. Nothing is given up: it may come back. */
export function hostAbsent(batch: Batch, host: string, reason: string): void {
  const { run } = batch.state;
  if (run?.host !== host || run.absent) return;
  if (run.stopping) return processLost(batch, reason);
  hostGone(batch, reason);
  batch.fact("gateway", "runtime.paused", { run: run.id, host, reason });
  tell(batch, "runtime.paused", `Paused: ${reason}. The session goes on when it is back`);
}

/** The socket to the host is gone; its process may well be alive. */
export function hostGone(batch: Batch, reason: string): void {
  if (batch.state.run?.connected)
    batch.fact("gateway", "runtime.disconnected", { run: batch.state.run.id, reason });
}

/** The process is there again. */
export function hostBack(batch: Batch, run: string, host: string): void {
  const wasAbsent = batch.state.run?.absent;
  batch.fact("gateway", "runtime.reconnected", { run, host });
  if (wasAbsent) tell(batch, "runtime.reconnected", `Host ${host} is back; the session goes on`);
}

/** What was asked of a host that is gone may never have begun: it is asked for anew. */
export function processRequestLost(batch: Batch, reason: string): void {
  if (batch.state.agent === "starting" && !batch.state.run)
    batch.fact("gateway", "runtime.reconnect_attempt", {
      attempt: batch.state.crashes + 1,
      delayMs: 0,
      reason,
    });
}

/**
 * The process is gone with its host, or with an earlier life of it, so what became of its turn cannot be known.
 * A session that it had not opened yet is opened by the next one.
 */
export function processLost(batch: Batch, reason: string): void {
  const { run, agent } = batch.state;
  if (!run) return;
  runGone(batch, run, reason, run.stopping);
  if ((agent === "starting" && !run.stopping) || batch.state.queue.length > 0) requestProcess(batch);
}

/** The process that was asked for is here while its predecessor has not said that it ended. */
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

/** No process could be had: nothing that waits for it will run. */
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
 * The process has had its time without work. Its lease goes on if there was work after all; else it ends,
 * and the session is paused until the next prompt.
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

/** A process that is to end on a host nobody has heard of for long is not waited for. */
function endAbsent(batch: Batch): void {
  const { run } = batch.state;
  if (run?.absent && run.stopping) processLost(batch, `host ${run.host} is gone`);
}

/** Ends the work and frees the process; the history stays, and a load or resume opens the session again. */
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
