import type { ToolCallStatus } from "@agentclientprotocol/sdk";
import { clip } from "../../../protocol/clipped-text.ts";
import { isRecord } from "../../../protocol/json-value.ts";
import { type Bounded, bound, type Item, idOf, jsonChars } from "./bounded-values.ts";
import { STATE_BUDGET } from "./state-budget.ts";
import type { Violations } from "./violations.ts";

/** The agent's tool calls, in the order in which they appeared. */
export type ToolCalls = {
  /** All calls so far, and how many of them are no longer in `items`. */
  total: number;
  dropped: number;
  /** Characters of all ids and details in `items`. */
  keptChars: number;
  items: ToolCall[];
};

export type ToolCall = {
  toolCallId: string;
  title: string | null;
  name: string | null;
  kind: string;
  status: ToolCallStatus;
  /** The event in which the call appeared, and when it began and ended. */
  seq: number;
  startedAt: number;
  endedAt: number | null;
  /** The agent sent a `tool_call`, not only updates of it. */
  announced: boolean;
  details: { [Name in DetailName]?: Bounded };
};

export const DETAILS = ["content", "locations", "rawInput", "rawOutput"] as const;
export type DetailName = (typeof DETAILS)[number];

/** The part of the agent's report that tool calls change. */
type ToolReport = { readonly toolCalls: ToolCalls; readonly violations: Violations };

/** Whether the `update` of a session/update is about a tool call. */
export function isToolCall(update: unknown): update is Item {
  return (
    isRecord(update) && (update.sessionUpdate === "tool_call" || update.sessionUpdate === "tool_call_update")
  );
}

export function initialToolCalls(): ToolCalls {
  return { total: 0, dropped: 0, keptChars: 0, items: [] };
}

/**
 * Folds the tool call that a permission request describes. With some agents the request is the first to mention the
 * call. The description of a known call is ignored: it says nothing new, and one agent sends an empty input in it.
 */
export function foldPermissionToolCall(report: ToolReport, toolCall: unknown, seq: number, at: number): void {
  if (isRecord(toolCall) && !findToolCall(report, toolCall.toolCallId))
    foldToolCall(report, toolCall, seq, at, "update");
}

export function findToolCall(report: ToolReport, toolCallId: unknown): ToolCall | undefined {
  // The search begins at the end, because calls that change are mostly young.
  const { items } = report.toolCalls;
  for (let i = items.length - 1; i >= 0; i -= 1) {
    const call = items[i] as ToolCall;
    if (call.toolCallId === toolCallId) return call;
  }
  return undefined;
}

/**
 * Merges a `tool_call` or `tool_call_update`: a given member replaces the known one, an omitted member stays. ACP v1
 * cannot clear a member, so null means omitted.
 */
export function foldToolCall(
  report: ToolReport,
  update: Item,
  seq: number,
  at: number,
  by: "call" | "update",
): void {
  const toolCallId = idOf(update.toolCallId);
  if (toolCallId === undefined) return;
  const call = findToolCall(report, toolCallId) ?? addToolCall(report, toolCallId, seq, at);
  if (by === "call") {
    if (call.announced) report.violations.duplicateToolCall += 1;
    call.announced = true;
  }
  if (typeof update.title === "string") call.title = clip(update.title, STATE_BUDGET.labelChars);
  if (typeof update.name === "string") call.name = clip(update.name, STATE_BUDGET.wordChars);
  if (typeof update.kind === "string") call.kind = clip(update.kind, STATE_BUDGET.wordChars);
  const over = call.endedAt !== null;
  setStatus(report, call, update.status, at);
  if (over && DETAILS.some((name) => differs(call.details[name], update[name])))
    report.violations.changedContent += 1;
  for (const name of DETAILS) {
    const value = update[name];
    // The content of a finished call does not change: the first one stays.
    if (value === undefined || value === null || (over && call.details[name])) continue;
    report.toolCalls.keptChars -= call.details[name]?.chars ?? 0;
    const kept = bound(value, seq);
    report.toolCalls.keptChars += kept.chars;
    call.details[name] = kept;
  }
  makeRoom(report.toolCalls, call);
}

/** Whether a detail has changed. Of a detail that was too long to keep this is not known. */
function differs(kept: Bounded | undefined, value: unknown): boolean {
  if (value === undefined || value === null || kept?.value === undefined) return false;
  return jsonChars(value, kept.chars) !== kept.chars || JSON.stringify(value) !== JSON.stringify(kept.value);
}

function addToolCall({ toolCalls }: ToolReport, toolCallId: string, seq: number, at: number): ToolCall {
  const call: ToolCall = {
    toolCallId,
    title: null,
    name: null,
    kind: "other",
    status: "pending",
    seq,
    startedAt: at,
    endedAt: null,
    announced: false,
    details: {},
  };
  toolCalls.items.push(call);
  toolCalls.total += 1;
  toolCalls.keptChars += toolCallId.length;
  return call;
}

const RANK: Readonly<Record<string, number>> = { pending: 0, in_progress: 1, completed: 2, failed: 2 };

/** A status only moves forward: an ended call stays ended, whatever the agent sends later. */
function setStatus(report: ToolReport, call: ToolCall, status: unknown, at: number): void {
  if (typeof status !== "string" || !Object.hasOwn(RANK, status) || status === call.status) return;
  if ((RANK[status] as number) <= (RANK[call.status] as number)) {
    report.violations.backwardStatus += 1;
    return;
  }
  call.status = status as ToolCallStatus;
  if (RANK[status] === 2) call.endedAt = at;
}

/** Drops the oldest calls, finished ones first, and the oldest details, until the rest fits the budget. */
function makeRoom(toolCalls: ToolCalls, latest: ToolCall): void {
  const { items } = toolCalls;
  if (items.length > STATE_BUDGET.toolCalls) drop(toolCalls, latest);
  if (toolCalls.keptChars <= STATE_BUDGET.toolCallsChars) return;
  // Frees more than is needed, so that not every update goes through all calls.
  const target = STATE_BUDGET.toolCallsChars * 0.75;
  for (const call of items) {
    if (toolCalls.keptChars <= target) return;
    if (call !== latest) forgetDetails(toolCalls, call);
  }
  // Only ids are left.
  while (toolCalls.keptChars > target && items.length > 1) drop(toolCalls, latest);
}

function drop(toolCalls: ToolCalls, latest: ToolCall): void {
  const finished = toolCalls.items.findIndex((call) => call.endedAt !== null && call !== latest);
  const [gone] = toolCalls.items.splice(Math.max(0, finished), 1);
  if (!gone) return;
  forgetDetails(toolCalls, gone);
  toolCalls.keptChars -= gone.toolCallId.length;
  toolCalls.dropped += 1;
}

function forgetDetails(toolCalls: ToolCalls, { details }: ToolCall): void {
  for (const kept of Object.values(details)) {
    toolCalls.keptChars -= kept.chars;
    kept.chars = 0;
    delete kept.value;
  }
}
