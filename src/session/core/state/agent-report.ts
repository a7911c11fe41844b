import type { ToolCallStatus } from "@agentclientprotocol/sdk";
import { KEEP } from "../../../protocol/limits.ts";
import {
  clip,
  type Item,
  isRecord,
  jsonChars,
  type Kept,
  type KeptList,
  keep,
  keepList,
} from "./bounded-values.ts";

/**
 * What the agent has told about the session, from the answers to our requests and from its updates. A
 * fold like the whole state: plain JSON, changed in place, no larger after a million updates than after a
 * thousand. Agents send all sorts of things; what is not as ACP says is passed over, and nothing throws.
 */
export type AcpState = {
  modes: Choice | null;
  models: Choice | null;
  configOptions: KeptList | null;
  commands: KeptList | null;
  plan: KeptList | null;
  /** Plans with an id (unstable in ACP), the oldest first. */
  plans: NamedPlan[];
  toolCalls: ToolCalls;
  info: Info;
  usage: Usage | null;
  /** The latest; earlier ones are in the log. */
  compaction: Compaction | null;
  /** `_meta` of the answer that opened the session. */
  meta: Kept | null;
  violations: Violations;
};

/** One of several: the mode the agent works in, the model it uses. */
export type Choice = { current: string | null; available: KeptList };

export type NamedPlan = { planId: string; plan: Kept };

export type ToolCalls = {
  /** How many there have been, and how many of them are not in `items` any more. */
  total: number;
  dropped: number;
  /** Length of all ids and details kept. */
  keptChars: number;
  /** In the order in which they appeared. */
  items: ToolCall[];
};

export type ToolCall = {
  toolCallId: string;
  title: string | null;
  name: string | null;
  kind: string;
  status: ToolCallStatus;
  /** Where it appeared, and when it began and ended. */
  seq: number;
  startedAt: number;
  endedAt: number | null;
  /** There was a `tool_call`, not only updates of it. */
  announced: boolean;
  details: { [Name in DetailName]?: Kept };
};

export const DETAILS = ["content", "locations", "rawInput", "rawOutput"] as const;
export type DetailName = (typeof DETAILS)[number];

export type Info = { title: string | null; updatedAt: string | null; meta: Kept | null };

/** Context window and cost as last reported; both are totals, not differences. */
export type Usage = {
  used: number | null;
  size: number | null;
  cost: { amount: number; currency: string } | null;
  /** Tokens by kind, from the last answer to a prompt (unstable in ACP). */
  tokens: Record<string, number> | null;
};

export type Compaction = {
  compactionId: string;
  status: string;
  error: string | null;
  seq: number;
  startedAt: number;
};

/** How often the agent broke a rule of the stream. Where the projection can, it holds that up for it. */
export type Violations = {
  backwardStatus: number;
  duplicateToolCall: number;
  changedContent: number;
  foreignSession: number;
  noMessage: number;
};

export function initialAcpState(): AcpState {
  return {
    modes: null,
    models: null,
    configOptions: null,
    commands: null,
    plan: null,
    plans: [],
    toolCalls: { total: 0, dropped: 0, keptChars: 0, items: [] },
    info: { title: null, updatedAt: null, meta: null },
    usage: null,
    compaction: null,
    meta: null,
    violations: {
      backwardStatus: 0,
      duplicateToolCall: 0,
      changedContent: 0,
      foreignSession: 0,
      noMessage: 0,
    },
  };
}

// ---- answers ------------------------------------------------------------------------------------------

/**
 * What has to be remembered of a request so that its answer can be understood: setting a mode is answered
 * `{}`, and not every agent sends an update as well.
 */
export function choiceOf(method: string, params: unknown): string | undefined {
  if (!isRecord(params)) return undefined;
  if (method === "session/set_mode") return idOf(params.modeId);
  if (method === "session/set_model") return idOf(params.modelId);
  return undefined;
}

/** The agent answered a request; `choice` is what `choiceOf` had to say of it. */
export function applyResult(
  acp: AcpState,
  method: string,
  choice: string | undefined,
  result: unknown,
  seq: number,
): void {
  switch (method) {
    case "session/new":
    case "session/load":
    case "session/resume":
    case "session/fork":
      return applySetup(acp, result, seq);
    case "session/set_mode":
      if (choice !== undefined) acp.modes = choose(acp.modes, choice);
      return;
    case "session/set_model":
      if (choice !== undefined) acp.models = choose(acp.models, choice);
      return;
    case "session/set_config_option":
      if (isRecord(result)) setConfigOptions(acp, result.configOptions);
      return;
    case "session/set_title":
      if (isRecord(result)) setInfo(acp.info, { title: result.title }, seq);
      return;
    case "session/prompt":
      if (isRecord(result)) setTokens(acp, result.usage);
  }
}

/** The agent opened the session. What it does not mention stays: updates may come before this answer. */
export function applySetup(acp: AcpState, result: unknown, seq: number): void {
  if (!isRecord(result)) return;
  const { modes, models } = result;
  if (isRecord(modes)) acp.modes = choiceFrom(modes.currentModeId, modes.availableModes, MODES);
  if (isRecord(models)) acp.models = choiceFrom(models.currentModelId, models.availableModels, MODELS);
  setConfigOptions(acp, result.configOptions);
  if (isRecord(result._meta)) acp.meta = keep(result._meta, seq);
}

/**
 * What a session/load or session/resume may be answered with: the members of the agent's own answer as
 * they are now. A list that was too long to keep whole is left out, because half of it would be a lie.
 */
export function currentSetup({ modes, models, configOptions }: AcpState): Record<string, unknown> {
  const setup: Record<string, unknown> = {};
  if (modes && modes.current !== null && !modes.available.truncated)
    setup.modes = { currentModeId: modes.current, availableModes: modes.available.items };
  if (models && models.current !== null && !models.available.truncated)
    setup.models = { currentModelId: models.current, availableModels: models.available.items };
  if (configOptions && !configOptions.truncated) setup.configOptions = configOptions.items;
  return setup;
}

type ListKind = { readonly maxChars: number; readonly essentials: readonly string[] };

const MODES: ListKind = { maxChars: KEEP.modesChars, essentials: ["id", "name", "description"] };
const MODELS: ListKind = { maxChars: KEEP.modelsChars, essentials: ["modelId", "name", "description"] };
const CONFIG: ListKind = {
  maxChars: KEEP.configOptionsChars,
  essentials: ["id", "name", "type", "category", "currentValue"],
};
const COMMANDS: ListKind = { maxChars: KEEP.commandsChars, essentials: ["name", "description"] };
const PLAN: ListKind = { maxChars: KEEP.planChars, essentials: ["content", "priority", "status"] };

function listOf(value: unknown, { maxChars, essentials }: ListKind): KeptList | undefined {
  return keepList(value, maxChars, essentials);
}

function choiceFrom(current: unknown, available: unknown, kind: ListKind): Choice {
  return { current: idOf(current) ?? null, available: listOf(available, kind) ?? noItems() };
}

function choose(known: Choice | null, current: string): Choice {
  return { current, available: known?.available ?? noItems() };
}

function noItems(): KeptList {
  return { items: [], total: 0, truncated: false };
}

function setConfigOptions(acp: AcpState, options: unknown): void {
  acp.configOptions = listOf(options, CONFIG) ?? acp.configOptions;
}

// ---- updates ------------------------------------------------------------------------------------------

/** Folds in the `update` of a session/update. Chunks of messages and kinds unknown here change nothing. */
export function applyUpdate(acp: AcpState, update: unknown, seq: number, at: number): void {
  if (!isRecord(update)) return;
  switch (update.sessionUpdate) {
    case "agent_message_chunk":
    case "agent_thought_chunk":
    case "user_message_chunk":
      return;
    case "tool_call":
      return applyToolCall(acp, update, seq, at, "call");
    case "tool_call_update":
      return applyToolCall(acp, update, seq, at, "update");
    case "plan":
      acp.plan = listOf(update.entries, PLAN) ?? acp.plan;
      return;
    case "plan_update":
      return setPlan(acp, update.plan, seq);
    case "plan_removed":
      acp.plans = acp.plans.filter(({ planId }) => planId !== update.planId);
      return;
    case "available_commands_update":
      acp.commands = listOf(update.availableCommands, COMMANDS) ?? acp.commands;
      return;
    case "current_mode_update": {
      const mode = idOf(update.currentModeId);
      if (mode !== undefined) acp.modes = choose(acp.modes, mode);
      return;
    }
    case "config_option_update":
      return setConfigOptions(acp, update.configOptions);
    case "session_info_update":
      return setInfo(acp.info, update, seq);
    case "usage_update":
      return setUsage(acp, update);
    case "compaction_update":
    case "compaction_summary_chunk":
      return setCompaction(acp, update, seq, at);
  }
}

/** Omitted means unchanged, null means cleared. */
function setInfo(info: Info, { title, updatedAt, _meta }: Item, seq: number): void {
  if (typeof title === "string") info.title = clip(title, KEEP.labelChars);
  else if (title === null) info.title = null;
  if (typeof updatedAt === "string") info.updatedAt = clip(updatedAt, KEEP.labelChars);
  else if (updatedAt === null) info.updatedAt = null;
  if (isRecord(_meta)) info.meta = keep(_meta, seq);
  else if (_meta === null) info.meta = null;
}

/** A total that is not mentioned has not changed. */
function setUsage(acp: AcpState, { used, size, cost }: Item): void {
  const usage = usageOf(acp);
  usage.used = count(used) ?? usage.used;
  usage.size = count(size) ?? usage.size;
  const amount = isRecord(cost) ? count(cost.amount) : undefined;
  if (isRecord(cost) && amount !== undefined && typeof cost.currency === "string")
    usage.cost = { amount, currency: clip(cost.currency, KEEP.labelChars) };
}

const TOKENS = [
  "totalTokens",
  "inputTokens",
  "outputTokens",
  "thoughtTokens",
  "cachedReadTokens",
  "cachedWriteTokens",
] as const;

function setTokens(acp: AcpState, usage: unknown): void {
  if (!isRecord(usage)) return;
  const tokens: Record<string, number> = {};
  for (const name of TOKENS) {
    const number = count(usage[name]);
    if (number !== undefined) tokens[name] = number;
  }
  usageOf(acp).tokens = tokens;
}

function usageOf(acp: AcpState): Usage {
  acp.usage ??= { used: null, size: null, cost: null, tokens: null };
  return acp.usage;
}

function setPlan(acp: AcpState, plan: unknown, seq: number): void {
  const planId = isRecord(plan) ? idOf(plan.planId) : undefined;
  if (planId === undefined) return;
  const known = acp.plans.find((one) => one.planId === planId);
  if (known) known.plan = keep(plan, seq);
  else acp.plans.push({ planId, plan: keep(plan, seq) });
  if (acp.plans.length > KEEP.plans) acp.plans.shift();
}

/** The first word of a compaction begins it; its summary is conversation and stays in the log. */
function setCompaction(acp: AcpState, update: Item, seq: number, at: number): void {
  const compactionId = idOf(update.compactionId);
  if (compactionId === undefined) return;
  if (acp.compaction?.compactionId !== compactionId)
    acp.compaction = { compactionId, status: "in_progress", error: null, seq, startedAt: at };
  const { compaction } = acp;
  if (typeof update.status === "string") compaction.status = clip(update.status, KEEP.labelChars);
  if (typeof update.error === "string") compaction.error = clip(update.error, KEEP.labelChars);
  else if (update.error === null) compaction.error = null;
}

// ---- tool calls ---------------------------------------------------------------------------------------

/**
 * A permission request describes the call it is about, for some agents before anything else does. Of a
 * call that is known it says nothing new, or less: one agent empties the input there.
 */
export function applyPermission(acp: AcpState, toolCall: unknown, seq: number, at: number): void {
  if (isRecord(toolCall) && !findToolCall(acp, toolCall.toolCallId))
    applyToolCall(acp, toolCall, seq, at, "update");
}

export function findToolCall(acp: AcpState, toolCallId: unknown): ToolCall | undefined {
  // From the end: calls that change are mostly young.
  const { items } = acp.toolCalls;
  for (let i = items.length - 1; i >= 0; i -= 1) {
    const call = items[i] as ToolCall;
    if (call.toolCallId === toolCallId) return call;
  }
  return undefined;
}

/**
 * A call and its updates are merged alike: what is given replaces, what is omitted stays. ACP v1 has no way
 * to clear a member, so null is the same as omitted.
 */
function applyToolCall(acp: AcpState, update: Item, seq: number, at: number, by: "call" | "update"): void {
  const toolCallId = idOf(update.toolCallId);
  if (toolCallId === undefined) return;
  const call = findToolCall(acp, toolCallId) ?? addToolCall(acp, toolCallId, seq, at);
  if (by === "call") {
    if (call.announced) acp.violations.duplicateToolCall += 1;
    call.announced = true;
  }
  if (typeof update.title === "string") call.title = clip(update.title, KEEP.labelChars);
  if (typeof update.name === "string") call.name = clip(update.name, KEEP.wordChars);
  if (typeof update.kind === "string") call.kind = clip(update.kind, KEEP.wordChars);
  const over = call.endedAt !== null;
  setStatus(acp, call, update.status, at);
  if (over && DETAILS.some((name) => differs(call.details[name], update[name])))
    acp.violations.changedContent += 1;
  for (const name of DETAILS) {
    const value = update[name];
    if (value === undefined || value === null) continue;
    acp.toolCalls.keptChars -= call.details[name]?.chars ?? 0;
    const kept = keep(value, seq);
    acp.toolCalls.keptChars += kept.chars;
    call.details[name] = kept;
  }
  makeRoom(acp.toolCalls, call);
}

/** As far as it is known: of what was too long to keep nobody can say. */
function differs(kept: Kept | undefined, value: unknown): boolean {
  if (value === undefined || value === null || kept?.value === undefined) return false;
  return jsonChars(value, kept.chars) !== kept.chars || JSON.stringify(value) !== JSON.stringify(kept.value);
}

function addToolCall({ toolCalls }: AcpState, toolCallId: string, seq: number, at: number): ToolCall {
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

/** Forward only: what has ended stays ended, whatever the agent says later. */
function setStatus(acp: AcpState, call: ToolCall, status: unknown, at: number): void {
  if (typeof status !== "string" || !Object.hasOwn(RANK, status) || status === call.status) return;
  if ((RANK[status] as number) <= (RANK[call.status] as number)) {
    acp.violations.backwardStatus += 1;
    return;
  }
  call.status = status as ToolCallStatus;
  if (RANK[status] === 2) call.endedAt = at;
}

/** Drops the oldest calls, finished ones first, and the oldest details, until what is left is small enough. */
function makeRoom(toolCalls: ToolCalls, latest: ToolCall): void {
  const { items } = toolCalls;
  if (items.length > KEEP.toolCalls) drop(toolCalls, latest);
  if (toolCalls.keptChars <= KEEP.toolCallsChars) return;
  // More than is needed, so that not every update has to go through all of them.
  const target = KEEP.toolCallsChars * 0.75;
  for (const call of items) {
    if (toolCalls.keptChars <= target) return;
    if (call !== latest) forgetDetails(toolCalls, call);
  }
  // All that is left are ids.
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

// ---- values -------------------------------------------------------------------------------------------

/** An id is kept whole or not at all: half of one is another. */
function idOf(value: unknown): string | undefined {
  return typeof value === "string" && jsonChars(value, KEEP.idChars) !== undefined ? value : undefined;
}

function count(value: unknown): number | undefined {
  return typeof value === "number" && Number.isFinite(value) && value >= 0 ? value : undefined;
}
