import { clip } from "../../../protocol/clipped-text.ts";
import { ErrorCode } from "../../../protocol/errors.ts";
import { gatewayNotice } from "../../../protocol/extensions.ts";
import { type Frame, paramsOf, type ResponseFrame, resultOf, rewrite } from "../../../protocol/frame.ts";
import { type JsonObject, recordOf } from "../../../protocol/json-value.ts";
import { allowsEverything, checkOpening, type OpeningRefusal } from "../../../protocol/opening-rules.ts";
import { BROUGHT_MEMBERS } from "../state/brought-members.ts";
import type { RequestToAgent, Run, SessionState } from "../state/state.ts";
import { answerRoute } from "./answers.ts";
import type { Batch } from "./batch.ts";
import { directoriesThere, refusedMembers, withBrought } from "./brought-members.ts";
import { dropQueued } from "./queue.ts";
import { restoreSettings } from "./settings.ts";
import { failRunning } from "./turns.ts";

/** Starts of agent processes: requested, asked to open the session, or unavailable. `process-end.ts` has their ends. */

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
  const checked = checkedParams(batch, paramsOf(frame), run);
  if ("refusal" in checked) return refuseOpening(batch, checked.refusal);
  const given = checked.params;
  const id = String(batch.nextSeq);
  if (method === "session/new") {
    const raw = given
      ? openingRequest(id, method, { ...given, cwd: run.root })
      : rebased(frame, id, run.root);
    const waiting = Object.keys(awaitingAgent).find(
      (seq) => awaitingAgent[seq]?.method === "session/new" && awaitingAgent[seq]?.id,
    );
    batch.frame("gateway", "out", raw, waiting === undefined ? {} : { re: Number(waiting) });
    return;
  }
  const directories = directoriesThere(paramsOf(frame), run.root);
  const params = {
    ...(given ?? { ...paramsOf(frame), ...(directories && { additionalDirectories: directories }) }),
    cwd: run.root,
    sessionId: context.acpSessionId,
  };
  batch.frame("gateway", "out", openingRequest(id, method, params));
}

/** The parameters for the process, if they are not exactly those of the client's `session/new`. */
function checkedParams(
  batch: Batch,
  own: JsonObject,
  run: Run,
): { params: JsonObject | undefined } | { refusal: OpeningRefusal } {
  const { opening, root } = run;
  leaveOutRefused(batch, own, run);
  const params = withBrought(batch, own, root);
  if (allowsEverything(opening)) return { params: params === own ? undefined : params };
  return checkOpening(params, opening, root);
}

/**
 * Leaves out each member that a client brought while no process could say that the workspace does not allow it. Clients
 * are told once: the session forgets the member, and has that of its `session/new` again.
 */
function leaveOutRefused(batch: Batch, own: JsonObject, run: Run): void {
  const { brought } = batch.state;
  const refused = refusedMembers(run, withBrought(batch, own, run.root));
  const members = BROUGHT_MEMBERS.filter((member) => refused[member] && brought?.[member] !== undefined);
  if (members.length === 0) return;
  batch.fact("gateway", "session.members_refused", { members });
  for (const member of members) tell(batch, "session.opening_refused", refused[member] ?? "");
}

function openingRequest(id: string, method: string, params: JsonObject): string {
  return JSON.stringify({ jsonrpc: "2.0", id: Number(id), method, params });
}

/** The client's own request with the host's paths. */
function rebased(frame: Frame, id: string, root: string): string {
  const directories = directoriesThere(paramsOf(frame), root);
  const additional = directories && { additionalDirectories: JSON.stringify(directories) };
  return rewrite(frame, { id, cwd: JSON.stringify(root), ...additional });
}

/** The workspace does not allow what the client brings along: the client hears which setting says so. */
function refuseOpening(batch: Batch, { setting, message }: OpeningRefusal): void {
  const error = { code: ErrorCode.forbidden, message, data: { setting } };
  batch.fact("gateway", "runtime.opening_refused", { setting, message });
  for (const item of [...batch.state.queue]) dropQueued(batch, item, error);
  failRunning(batch, "opening_refused", error);
}

/** Tells clients which keys of the first opening the agent did not get. */
function tellDropped(batch: Batch): void {
  const { identity, run } = batch.state;
  if (identity?.request == null || !run || allowsEverything(run.opening)) return;
  const checked = checkOpening(paramsOf(batch.frameAt(identity.request).frame), run.opening, run.root);
  if ("refusal" in checked || checked.dropped.length === 0) return;
  const names = checked.dropped.map((name) => clip(name, 100)).slice(0, 20);
  const message = `The agent did not get ${names.join(", ")}: the workspace's setting openingMeta does not name them`;
  tell(batch, "session.meta_dropped", message);
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
  const isLong = (frame.sessionId?.length ?? 0) > batch.limits.idChars;
  const failed = anew ? frame.sessionId === undefined || isLong : "error" in frame.value;
  if (failed) {
    const login = loginFor(batch, frame);
    if (login) return logIn(batch, frame, re, pending, login);
    batch.frame("agent", "in", frame, answerRoute(re, pending));
    // Some agents advertise session/load and fail to do it: a new agent session is better than none.
    if (pending.method !== "session/new") return openAgentSession(batch, "session/new");
    const { error } = frame.value;
    const why =
      error == null ? `it gave ${isLong ? "an over-long" : "no"} session id` : recordOf(error).message;
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
    releaseEarlyUpdates(batch, acpSessionId);
    if (previous === null) tellDropped(batch);
    if (previous !== null && pending.method === "session/new") tellRebound(batch);
  }
  logAgentSessionId(batch, frame);
  restoreSettings(batch);
}

/** The login for a process that does not open the session without one, and has not got one yet. */
function loginFor(batch: Batch, { value }: ResponseFrame): Frame | undefined {
  const { login, run } = batch.state;
  if (recordOf(value.error).code !== ErrorCode.authRequired || login === undefined || run?.login)
    return undefined;
  return batch.findFrame(login)?.frame;
}

/** Gives the process the login. The request to open the session is made again when the process has answered. */
function logIn(batch: Batch, frame: ResponseFrame, re: number, pending: RequestToAgent, login: Frame): void {
  // The client that waits gets the answer to the next request.
  batch.frame(
    "agent",
    "in",
    frame,
    pending.id === undefined ? answerRoute(re, pending) : { stop: "gateway" },
  );
  batch.frame("gateway", "out", rewrite(login, { id: String(batch.nextSeq) }));
}

/** The process has answered the login that it was given. Without one it refuses again, and the client learns why. */
export function loggedIn({ state }: Batch, request: number): boolean {
  return state.agent === "starting" && state.run?.login === request;
}

/** Clients know the session now, and get the updates that came before the answer. */
function releaseEarlyUpdates(batch: Batch, acpSessionId: string): void {
  for (const frame of batch.state.run?.earlyUpdates ?? [])
    if (batch.findFrame(frame)?.frame.sessionId === acpSessionId)
      batch.fact("gateway", "session.update_released", { frame });
}

/** Some adapters report the id that their harness has for the session. The id is for people; nothing depends on it. */
function logAgentSessionId(batch: Batch, frame: ResponseFrame): void {
  const { context } = batch.state;
  const meta = recordOf(resultOf(frame)._meta);
  const agentSessionId = [meta.agentSessionId, meta.sessionId].find(
    (id) => typeof id === "string" && id !== "" && id.length <= batch.limits.idChars,
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
export function tell(batch: Batch, event: string, message: string): void {
  batch.frame("gateway", "in", gatewayNotice(batch.state.sessionId, event, message));
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

export function logFailure(batch: Batch, detailCode: string, message: string, stderr = ""): void {
  const { internal: code } = ErrorCode;
  batch.fact("gateway", "error", { origin: "agent", code, detailCode, message, stderr });
}
