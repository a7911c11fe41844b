import { ErrorCode } from "../../../protocol/errors.ts";
import type { Limits } from "../../../protocol/limits.ts";
import { logFailure, requestProcess, unavailable } from "./agent-process.ts";
import { cancelRequestsOfAgent, endRequestsOfAgent } from "./agent-requests.ts";
import { settle } from "./answers.ts";
import type { Batch } from "./batch.ts";
import { sayFarewell } from "./farewell.ts";
import { processLost, processRequestLost } from "./host-departure.ts";
import { cancelQueued, dropQueued } from "./queue.ts";
import { tellAllOutput } from "./shown-terminals.ts";
import { failRunning } from "./turns.ts";

/** Ends of an agent process that its host reports or the gateway wants: exit, idleness, a closed session. */

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
  tellAllOutput(batch);
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

/**
 * The idle time of the process is over. If the process had work meanwhile, its lease is renewed. Otherwise the process
 * ends, and the session is paused until the next prompt. `isAttended`: a client is attached.
 */
export function checkIdle(batch: Batch, isAttended: boolean): void {
  const { state } = batch;
  if (!state.run || state.run.stopping) return;
  const busy = state.turn !== null || state.queue.length > 0;
  const until = (busy ? batch.at : state.activeAt) + idleMsOf(batch.limits, isAttended);
  if (until > batch.at) {
    batch.fact("gateway", "queue.owner.lease_renewed", { run: state.run.id, until });
    return;
  }
  batch.fact("gateway", "queue.owner.idle_expired", { run: state.run.id, idleMs: batch.at - state.activeAt });
  endAbsent(batch);
}

/** How long a process may be without work. */
export function idleMsOf(
  { idleMs, unattendedIdleMs }: Pick<Limits, "idleMs" | "unattendedIdleMs">,
  isAttended: boolean,
): number {
  return isAttended ? idleMs : Math.min(idleMs, unattendedIdleMs);
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
  sayFarewell(batch, "session/close");
  batch.fact("gateway", "session.closed", { by });
  endAbsent(batch);
}
