import { assertNever } from "../../../protocol/assert-never.ts";
import { clip } from "../../../protocol/clipped-text.ts";
import { OPEN_RULES } from "../../../protocol/opening-rules.ts";
import type { Facts } from "../events/catalogue.ts";
import type { FactEvent } from "../events/event.ts";
import type { PROCESS_FACTS } from "../events/facts/process-facts.ts";
import { type SessionState, stopRun } from "./state.ts";
import { STATE_BUDGET } from "./state-budget.ts";
import { addOutput, endTerminal } from "./terminals.ts";
import { restartUsage } from "./usage.ts";
import { wantedIn } from "./wanted-settings.ts";

/** Folds what happened to the agent's processes and to their hosts. */
export function foldProcessFact(state: SessionState, event: FactEvent<keyof typeof PROCESS_FACTS>): void {
  const { run } = state;
  switch (event.kind) {
    case "runtime.connected":
      return startRun(state, event.payload, event.seq);
    case "runtime.reconnected":
      if (!run) return;
      run.connected = true;
      run.absent = false;
      return;
    case "runtime.disconnected":
      if (run) run.connected = false;
      return;
    case "runtime.paused":
      if (run) run.absent = true;
      return;
    case "runtime.reconnect_attempt":
      state.agent = "starting";
      state.paused = false;
      if (event.payload.process !== "same") state.processRequest = event.seq;
      return;
    case "runtime.noise":
      state.report.violations.noMessage += 1;
      state.violations.noMessage = (state.violations.noMessage ?? 0) + 1;
      return;
    case "terminal.output":
      state.historyChars += event.payload.data.length;
      return addOutput(state, event.payload.terminalId, event.payload.data);
    case "terminal.ended": {
      const { terminalId, exitCode: code, signal } = event.payload;
      return endTerminal(state, terminalId, { code, signal });
    }
    case "queue.owner.started":
      if (!run) return;
      run.pid = event.payload.pid;
      run.command = event.payload.command && clip(event.payload.command, STATE_BUDGET.reasonChars);
      run.startedAt = event.at;
      return;
    case "queue.owner.stopped":
      return endRun(state, event.payload, event.at);
    case "queue.owner.draining":
      if (run) run.draining = true;
      return;
    case "queue.owner.drained":
      return stopRun(state);
    case "queue.owner.idle_expired":
      state.paused = true;
      return stopRun(state);
    case "queue.owner.lease_renewed":
      return;
    case "runtime.opening_refused":
      state.lastError = clip(event.payload.message, STATE_BUDGET.reasonChars);
      return stopRun(state);
    case "error":
      return foldError(state, event.payload);
    default:
      assertNever(event);
  }
}

function startRun(state: SessionState, hello: Facts["runtime.connected"], seq: number): void {
  // The client opened the session before anybody knew which agents there are: it has the agent that came.
  if (state.identity?.agent === "") state.identity = { ...state.identity, agent: hello.agent };
  state.run = {
    id: hello.run,
    host: hello.host,
    root: hello.root,
    since: seq,
    received: 0,
    connected: true,
    pid: null,
    command: null,
    startedAt: null,
    initialized: false,
    canLoad: false,
    canResume: false,
    canFork: false,
    stopping: false,
    draining: false,
    absent: false,
    io: hello.clientIo ?? "host",
    opening: hello.opening ?? OPEN_RULES,
    ...(hello.duplicateChunks && { duplicateChunks: hello.duplicateChunks }),
    terminals: [],
  };
  if (hello.closeMeans === undefined) delete state.closeMeans;
  else state.closeMeans = hello.closeMeans;
  state.home = hello.host;
  restartUsage(state.report);
  const wanted = state.wanted ?? wantedIn(state.report);
  if (wanted) state.wanted = { ...wanted, asked: [], held: [] };
  state.lastReplayed = null;
}

function endRun(state: SessionState, exit: Facts["queue.owner.stopped"], at: number): void {
  state.run = null;
  delete state.terminals;
  // A process that is lost with its host says nothing about the agent.
  if (exit.expected !== true && exit.lost !== true) state.crashes += 1;
  // The next process may have been asked for while this one was told to end.
  if (exit.expected !== true || state.agent !== "starting") state.agent = "gone";
  state.awaitingClient = {};
  for (const [seq, pending] of Object.entries(state.awaitingAgent))
    if (pending.connection === undefined) delete state.awaitingAgent[seq];
  const { code, signal, reason } = exit;
  state.lastExit = {
    code,
    signal: signal && clip(signal, STATE_BUDGET.wordChars),
    at,
    reason: clip(reason ?? "unknown", STATE_BUDGET.reasonChars),
  };
}

function foldError(state: SessionState, { violation, message, detailCode }: Facts["error"]): void {
  // A violation is passed on to clients; the agent goes on.
  if (violation !== undefined) return;
  state.lastError = clip(message ?? "unknown", STATE_BUDGET.reasonChars);
  if (detailCode === "agent_unavailable" || detailCode === "crash_loop") state.agent = "failed";
}
