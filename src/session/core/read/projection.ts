import { isoTime } from "../../../protocol/iso-time.ts";
import type { Choice } from "../state/agent-settings.ts";
import type { Bounded } from "../state/bounded-values.ts";
import { titleOf } from "../state/session-title.ts";
import type { Queued, RequestOfAgent, SessionState } from "../state/state.ts";
import { DETAILS, findToolCall, type ToolCall } from "../state/tool-calls.ts";
import { findTurn, type TurnRecord } from "../state/turn-history.ts";
import { totalsOf, type Usage } from "../state/usage.ts";

/**
 * The session as readers see it: `session.json` of the acpx session model, with the agent's report in ACP's terms. A
 * value that is too long for the state is missing, and `truncated` names the event that has it. A list that is too long
 * is reduced to names and descriptions, and its `truncated` is true.
 */
export function project(state: SessionState): Record<string, unknown> {
  const { identity, run, context, report } = state;
  return {
    schema: "acpx.session.v1",
    acpxRecordId: state.sessionId,
    agent: { command: run?.command ?? null, name: identity?.agent ?? null },
    workspace: { cwd: run?.root ?? identity?.cwd ?? null, name: identity?.workspace ?? null },
    identity: { acpSessionId: context.acpSessionId, agentSessionId: context.agentSessionId },
    lifecycle: {
      createdAt: isoTime(state.createdAt),
      lastUsedAt: isoTime(state.lastAt),
      closed: state.closed,
      closedAt: isoOrNull(state.closedAt),
      pid: run?.pid ?? null,
      agentStartedAt: isoOrNull(run?.startedAt ?? null),
      lastAgentExit: state.lastExit && { ...state.lastExit, at: isoTime(state.lastExit.at) },
    },
    log: {
      firstSeq: 1,
      lastSeq: state.lastSeq,
      nextSeq: state.lastSeq + 1,
      archivedUpTo: state.archivedUpTo,
      // Only an export cuts the log into files; it puts the name of the last file here.
      activeSegment: "events/000000000001.ndjson",
    },
    state: sessionStatus(state),
    title: titleOf(state),
    archived: state.archived ?? false,
    info: { title: titleOf(state), updatedAt: report.info.updatedAt, ...metaOf(report.info.meta) },
    agentStatus: state.agent,
    host: run && { name: run.host, run: run.id, connected: run.connected, draining: run.draining },
    modes: choice(report.modes),
    models: choice(report.models),
    configOptions: report.configOptions,
    commands: report.commands,
    plan: report.plan,
    plans: report.plans.map(({ planId, plan }) => ({ planId, ...detail("plan", plan) })),
    toolCalls: {
      total: report.toolCalls.total,
      dropped: report.toolCalls.dropped,
      items: report.toolCalls.items.map(toolCall),
    },
    usage: report.usage && usage(report.usage),
    compaction: report.compaction && {
      ...report.compaction,
      startedAt: isoTime(report.compaction.startedAt),
    },
    ...metaOf(report.meta),
    violations: report.violations,
    turn: state.turn && {
      turnId: state.turn.turnId,
      prompt: state.turn.prompt,
      startedAt: isoTime(state.turn.startedAt),
    },
    turns: { total: state.turns.total, recent: state.turns.recent.map(turn) },
    queue: state.queue.map((item) => queued(state, item)),
    pendingPermissions: pendingPermissions(state),
    pendingQuestions: pendingQuestions(state),
    pendingRequests: Object.entries(state.awaitingClient).map(([seq, { method, by, since }]) => ({
      seq: Number(seq),
      method,
      by,
      since: isoTime(since),
    })),
    lastError: state.lastError,
  };
}

export type SessionStatus = "active" | "paused" | "completed" | "error";

export function sessionStatus({ closed, agent, paused, run }: SessionState): SessionStatus {
  if (closed) return "completed";
  if (agent === "failed") return "error";
  return paused || run?.absent ? "paused" : "active";
}

/** As last reported, and the totals over all processes. */
function usage(reported: Usage) {
  const { used, size, cost, tokens } = reported;
  return { used, size, cost, tokens, total: totalsOf(reported) };
}

function choice(from: Choice | null) {
  return from && { current: from.current, available: from.available };
}

function toolCall({ details, announced: _, ...call }: ToolCall) {
  const shown: Record<string, unknown> = {
    ...call,
    startedAt: isoTime(call.startedAt),
    endedAt: isoOrNull(call.endedAt),
  };
  const truncated: Record<string, number> = {};
  for (const name of DETAILS) {
    const kept = details[name];
    if (!kept) continue;
    if ("value" in kept) shown[name] = kept.value;
    else truncated[name] = kept.seq;
  }
  if (Object.keys(truncated).length > 0) shown.truncated = truncated;
  return shown;
}

function detail(name: string, kept: Bounded): Record<string, unknown> {
  return "value" in kept ? { [name]: kept.value } : { truncated: { [name]: kept.seq } };
}

function metaOf(kept: Bounded | null): Record<string, unknown> {
  return kept ? detail("_meta", kept) : {};
}

function turn(record: TurnRecord) {
  return {
    ...record,
    queuedAt: isoTime(record.queuedAt),
    startedAt: isoOrNull(record.startedAt),
    endedAt: isoOrNull(record.endedAt),
  };
}

function queued({ turns }: SessionState, { seq, turnId }: Queued) {
  const record = findTurn(turns, { prompt: seq });
  return {
    seq,
    turnId,
    ...(record && { since: isoTime(record.queuedAt), promptPreview: record.promptPreview }),
  };
}

/** A request may describe its tool call less fully than the agent's updates did. */
export function pendingPermissions({ awaitingClient, report }: SessionState) {
  return Object.entries(awaitingClient).flatMap(([seq, { permission, since }]: [string, RequestOfAgent]) => {
    if (!permission) return [];
    const { toolCallId, options } = permission;
    const known = findToolCall(report, toolCallId);
    return {
      seq: Number(seq),
      since: isoTime(since),
      toolCallId,
      title: permission.title ?? known?.title ?? null,
      kind: permission.kind ?? known?.kind ?? null,
      ...(options ? detail("options", options) : { truncated: { options: Number(seq) } }),
    };
  });
}

export function pendingQuestions({ awaitingClient }: SessionState) {
  return Object.entries(awaitingClient).flatMap(([seq, { question, since }]: [string, RequestOfAgent]) => {
    if (!question) return [];
    const { mode, message, toolCallId } = question;
    const name = mode === "url" ? "url" : "requestedSchema";
    const kept = question[name];
    return {
      seq: Number(seq),
      since: isoTime(since),
      mode,
      message,
      toolCallId,
      ...(kept ? detail(name, kept) : { truncated: { [name]: Number(seq) } }),
    };
  });
}

function isoOrNull(at: number | null): string | null {
  return at === null ? null : isoTime(at);
}
