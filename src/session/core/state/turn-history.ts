import { clip } from "../../../protocol/clipped-text.ts";
import { isRecord } from "../../../protocol/json-value.ts";
import { STATE_BUDGET } from "./state-budget.ts";

/** The latest turns with previews of their messages, so that a list of turns needs no look into the log. */
export type TurnHistory = {
  /** The number of all turns, including those that wait. */
  total: number;
  recent: TurnRecord[];
};

export type TurnStatus = "queued" | "running" | "completed" | "cancelled" | "failed";

export type TurnRecord = {
  turnId: string | null;
  /** Sequence number of the prompt. */
  prompt: number;
  requestId?: string;
  status: TurnStatus;
  queuedAt: number;
  startedAt: number | null;
  endedAt: number | null;
  stopReason: string | null;
  /** Why the turn failed. */
  reason: string | null;
  promptPreview: string;
  replyPreview: string;
  /** Updates of the agent and tool calls begun during the turn. */
  updates: number;
  toolCalls: number;
};

export function initialTurnHistory(): TurnHistory {
  return { total: 0, recent: [] };
}

/** Adds the turn of an accepted prompt, which begins now or after the turns before it. */
export function addTurn(
  history: TurnHistory,
  turn: {
    turnId: string | null;
    prompt: number;
    at: number;
    requestId?: string | undefined;
    params?: unknown;
  },
): TurnRecord {
  const record: TurnRecord = {
    turnId: label(turn.turnId),
    prompt: turn.prompt,
    status: "queued",
    queuedAt: turn.at,
    startedAt: null,
    endedAt: null,
    stopReason: null,
    reason: null,
    promptPreview: promptPreview(turn.params),
    replyPreview: "",
    updates: 0,
    toolCalls: 0,
  };
  if (turn.requestId !== undefined) record.requestId = clip(turn.requestId, STATE_BUDGET.labelChars);
  history.recent.push(record);
  history.total += 1;
  makeRoom(history.recent);
  return record;
}

/** The end of a turn. A log that was made from a record of the past names the turn by its id alone. */
export type TurnEnd = {
  readonly turnId: string;
  readonly prompt?: number | null | undefined;
  readonly replyPreview?: string | undefined;
  readonly stopReason?: string | null | undefined;
  readonly reason?: string | null | undefined;
};

export function startTurn(
  history: TurnHistory,
  turn: { readonly turnId: string; readonly prompt: number; readonly promptPreview?: string | undefined },
  at: number,
): void {
  const { turnId, prompt, promptPreview } = turn;
  const record = findTurn(history, turn) ?? addTurn(history, { turnId, prompt, at });
  record.turnId = label(turnId);
  record.status = "running";
  record.startedAt = at;
  if (record.promptPreview === "" && promptPreview !== undefined)
    record.promptPreview = extend("", promptPreview);
}

export function finishTurn(
  history: TurnHistory,
  status: "completed" | "cancelled" | "failed",
  { turnId, prompt, stopReason, reason, replyPreview }: TurnEnd,
  at: number,
): void {
  const record = findTurn(history, { turnId, prompt });
  if (!record || record.endedAt !== null) return;
  record.status = status;
  record.endedAt = at;
  record.stopReason = label(stopReason);
  record.reason = label(reason);
  if (record.replyPreview === "" && replyPreview !== undefined)
    record.replyPreview = extend("", replyPreview);
}

/** Finds a turn by its prompt's sequence number or, without one, by the turn's id. */
export function findTurn(
  { recent }: TurnHistory,
  { prompt, turnId }: { readonly prompt?: number | null | undefined; readonly turnId?: string },
): TurnRecord | undefined {
  const byPrompt = prompt != null;
  if (!byPrompt && turnId === undefined) return undefined;
  for (let i = recent.length - 1; i >= 0; i -= 1) {
    const record = recent[i] as TurnRecord;
    if (byPrompt ? record.prompt === prompt : record.turnId === turnId) return record;
  }
  return undefined;
}

/** Counts an update of the agent, which began `newToolCalls` tool calls. Runs for every chunk. */
export function countUpdate(record: TurnRecord, update: unknown, newToolCalls: number): void {
  record.updates += 1;
  const preview = record.replyPreview;
  if (newToolCalls > 0) {
    record.toolCalls += newToolCalls;
    // Text after a tool call is another message.
    if (preview !== "" && preview.length < STATE_BUDGET.previewChars && !preview.endsWith("\n"))
      record.replyPreview = `${preview}\n`;
    return;
  }
  if (preview.length >= STATE_BUDGET.previewChars || !isRecord(update)) return;
  const { sessionUpdate, content } = update;
  if (sessionUpdate === "agent_message_chunk" && isRecord(content) && typeof content.text === "string")
    record.replyPreview = extend(preview, content.text);
}

function promptPreview(params: unknown): string {
  const blocks = isRecord(params) ? params.prompt : undefined;
  if (!Array.isArray(blocks)) return "";
  let preview = "";
  for (const block of blocks) {
    if (preview.length >= STATE_BUDGET.previewChars) break;
    if (!isRecord(block) || block.type !== "text" || typeof block.text !== "string") continue;
    preview = extend(preview === "" ? preview : `${preview}\n`, block.text);
  }
  return preview;
}

/** Adds text to a preview. A preview that has been cut grows no more. */
function extend(preview: string, more: string): string {
  const room = STATE_BUDGET.previewChars - preview.length;
  return more.length <= room ? preview + more : `${preview}${clip(more, room)}…`;
}

/** Drops the oldest ended turn, and other turns only when there are very many. */
function makeRoom(recent: TurnRecord[]): void {
  if (recent.length <= STATE_BUDGET.endedTurns) return;
  const ended = recent.findIndex((record) => record.endedAt !== null);
  if (ended >= 0) recent.splice(ended, 1);
  else if (recent.length > STATE_BUDGET.turns) recent.shift();
}

function label(value: string | null | undefined): string | null {
  return value == null ? null : clip(value, STATE_BUDGET.labelChars);
}
