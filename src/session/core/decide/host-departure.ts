import { ErrorCode } from "../../../protocol/errors.ts";
import type { Run } from "../state/state.ts";
import { logFailure, requestProcess, tell } from "./agent-process.ts";
import { endRequestsOfAgent } from "./agent-requests.ts";
import type { Batch } from "./batch.ts";
import { stopForDrain } from "./queue.ts";
import { tellAllOutput } from "./shown-terminals.ts";
import { failRunning } from "./turns.ts";

/** A host leaves, is gone or comes back, and the agent process with it. */

/** The host is draining: the process ends after its turn, or at once if no turn is running. */
export function drain(batch: Batch, host: string): void {
  const { run, agent, turn } = batch.state;
  if (run?.host !== host || run.draining || run.stopping) return;
  batch.fact("gateway", "queue.owner.draining", { run: run.id, host });
  if (agent !== "starting" && !turn) stopForDrain(batch);
}

/** The socket to the host is lost; the process may be alive. */
export function hostGone(batch: Batch, reason: string): void {
  if (batch.state.run?.connected)
    batch.fact("gateway", "runtime.disconnected", { run: batch.state.run.id, reason });
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
  tellAllOutput(batch);
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
