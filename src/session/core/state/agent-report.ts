import { clip } from "../../../protocol/clipped-text.ts";
import { isRecord } from "../../../protocol/json-value.ts";
import {
  type AgentSettings,
  foldSetup,
  setCommands,
  setConfigOptions,
  setMode,
  setModel,
} from "./agent-settings.ts";
import { type Bounded, bound, type Item, idOf } from "./bounded-values.ts";
import { type Plans, removeNamedPlan, setNamedPlan, setPlan } from "./plans.ts";
import { STATE_BUDGET } from "./state-budget.ts";
import { foldToolCall, initialToolCalls, type ToolCalls } from "./tool-calls.ts";
import { setTokens, setUsage, type Usage } from "./usage.ts";
import { noViolations, type Violations } from "./violations.ts";

/**
 * The agent's reports of the session, from answers and updates. The report is a fold like the whole state: plain JSON,
 * changed in place, no larger after a million updates than after a thousand. A value that ACP does not allow is ignored;
 * nothing throws.
 */
export type AgentReport = AgentSettings &
  Plans & {
    toolCalls: ToolCalls;
    info: Info;
    usage: Usage | null;
    /** The latest; earlier ones are in the log. */
    compaction: Compaction | null;
    violations: Violations;
  };

export type Info = { title: string | null; updatedAt: string | null; meta: Bounded | null };

export type Compaction = {
  compactionId: string;
  status: string;
  error: string | null;
  seq: number;
  startedAt: number;
};

export function initialAgentReport(): AgentReport {
  return {
    modes: null,
    models: null,
    configOptions: null,
    commands: null,
    plan: null,
    plans: [],
    toolCalls: initialToolCalls(),
    info: { title: null, updatedAt: null, meta: null },
    usage: null,
    compaction: null,
    meta: null,
    violations: noViolations(),
  };
}

/** Folds the agent's answer to a request. `choice` is the mode or model that the request asked for. */
export function foldResult(
  report: AgentReport,
  method: string,
  choice: string | undefined,
  result: unknown,
  seq: number,
  at = 0,
): void {
  switch (method) {
    case "session/new":
    case "session/load":
    case "session/resume":
    case "session/fork":
      return foldSetup(report, result, seq);
    case "session/set_mode":
      return setMode(report, choice);
    case "session/set_model":
      return setModel(report, choice);
    case "session/set_config_option":
      if (isRecord(result)) setConfigOptions(report, result.configOptions, seq);
      return;
    case "session/set_title":
      if (isRecord(result)) setInfo(report.info, { title: result.title }, seq);
      return;
    case "session/prompt":
      if (isRecord(result)) setTokens(report, result.usage, { seq, at });
  }
}

/** Folds the `update` of a session/update. Chunks of messages, and kinds unknown here, change nothing. */
export function foldUpdate(report: AgentReport, update: unknown, seq: number, at: number): void {
  if (!isRecord(update)) return;
  switch (update.sessionUpdate) {
    case "agent_message_chunk":
    case "agent_thought_chunk":
    case "user_message_chunk":
      return;
    case "tool_call":
      return foldToolCall(report, update, seq, at, "call");
    case "tool_call_update":
      return foldToolCall(report, update, seq, at, "update");
    case "plan":
      return setPlan(report, update.entries);
    case "plan_update":
      return setNamedPlan(report, update.plan, seq);
    case "plan_removed":
      return removeNamedPlan(report, update.planId);
    case "available_commands_update":
      return setCommands(report, update.availableCommands);
    case "current_mode_update":
      return setMode(report, idOf(update.currentModeId));
    case "config_option_update":
      return setConfigOptions(report, update.configOptions, seq);
    case "session_info_update":
      return setInfo(report.info, update, seq);
    case "usage_update":
      return setUsage(report, update, { seq, at });
    case "compaction_update":
    case "compaction_summary_chunk":
      return setCompaction(report, update, seq, at);
  }
}

/** An omitted member is unchanged, a null member is cleared. */
function setInfo(info: Info, { title, updatedAt, _meta }: Item, seq: number): void {
  if (typeof title === "string") info.title = clip(title, STATE_BUDGET.labelChars);
  else if (title === null) info.title = null;
  if (typeof updatedAt === "string") info.updatedAt = clip(updatedAt, STATE_BUDGET.labelChars);
  else if (updatedAt === null) info.updatedAt = null;
  if (isRecord(_meta)) info.meta = bound(_meta, seq);
  else if (_meta === null) info.meta = null;
}

/** The first update with a new id begins a compaction. Its summary is conversation and stays in the log. */
function setCompaction(report: AgentReport, update: Item, seq: number, at: number): void {
  const compactionId = idOf(update.compactionId);
  if (compactionId === undefined) return;
  if (report.compaction?.compactionId !== compactionId)
    report.compaction = { compactionId, status: "in_progress", error: null, seq, startedAt: at };
  const { compaction } = report;
  if (typeof update.status === "string") compaction.status = clip(update.status, STATE_BUDGET.labelChars);
  if (typeof update.error === "string") compaction.error = clip(update.error, STATE_BUDGET.labelChars);
  else if (update.error === null) compaction.error = null;
}
