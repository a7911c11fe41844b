import { LIMITS } from "../protocol/limits.ts";
import { clip, isRecord } from "./bounded.ts";

/** The latest turns with a glimpse of what was said, so that a list of them needs no look into the log. */
export type TurnHistory = {
  /** How many there have been, those still waiting included. */
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
  /** Why it failed. */
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

/** A prompt was accepted: its turn begins now or when those before it have ended. */
export function addTurn(
  history: TurnHistory,
  turn: { turnId: unknown; prompt: number; at: number; requestId?: string | undefined; params?: unknown },
): TurnRecord {
  const record: TurnRecord = {
    turnId: text(turn.turnId),
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
  if (turn.requestId !== undefined) record.requestId = clip(turn.requestId, LIMITS.labelChars);
  history.recent.push(record);
  history.total += 1;
  makeRoom(history.recent);
  return record;
}

export function startTurn(
  history: TurnHistory,
  { turnId, prompt }: { readonly turnId?: unknown; readonly prompt?: unknown },
  at: number,
): void {
  if (typeof prompt !== "number") return;
  const record = findTurn(history, prompt) ?? addTurn(history, { turnId, prompt, at });
  record.turnId = text(turnId);
  record.status = "running";
  record.startedAt = at;
}

export function finishTurn(
  history: TurnHistory,
  status: "completed" | "cancelled" | "failed",
  payload: { readonly prompt?: unknown; readonly stopReason?: unknown; readonly reason?: unknown },
  at: number,
): void {
  const record = typeof payload.prompt === "number" ? findTurn(history, payload.prompt) : undefined;
  if (!record || record.endedAt !== null) return;
  record.status = status;
  record.endedAt = at;
  record.stopReason = text(payload.stopReason);
  record.reason = text(payload.reason);
}

export function findTurn({ recent }: TurnHistory, prompt: number): TurnRecord | undefined {
  for (let i = recent.length - 1; i >= 0; i -= 1) {
    const record = recent[i] as TurnRecord;
    if (record.prompt === prompt) return record;
  }
  return undefined;
}

/** An update of the agent during the turn, which began `newToolCalls` tool calls. Runs for every chunk. */
export function countUpdate(record: TurnRecord, update: unknown, newToolCalls: number): void {
  record.updates += 1;
  const preview = record.replyPreview;
  if (newToolCalls > 0) {
    record.toolCalls += newToolCalls;
    // What is said after a tool call is another message.
    if (preview !== "" && preview.length < LIMITS.previewChars && !preview.endsWith("\n"))
      record.replyPreview = `${preview}\n`;
    return;
  }
  if (preview.length >= LIMITS.previewChars) return;
  const { sessionUpdate, content } = update as { sessionUpdate?: unknown; content?: { text?: unknown } | null };
  if (sessionUpdate === "agent_message_chunk" && typeof content?.text === "string")
    record.replyPreview += clip(content.text, LIMITS.previewChars - preview.length);
}

function promptPreview(params: unknown): string {
  const blocks = isRecord(params) ? params.prompt : undefined;
  if (!Array.isArray(blocks)) return "";
  let preview = "";
  for (const block of blocks) {
    if (!isRecord(block) || block.type !== "text" || typeof block.text !== "string") continue;
    const separator = preview === "" || block.text === "" ? "" : "\n";
    preview = clip(preview + separator + clip(block.text, LIMITS.previewChars), LIMITS.previewChars);
    if (preview.length >= LIMITS.previewChars - 1) break;
  }
  return preview;
}

/** Turns that have not ended come on top of the limit; the queue has its own. */
function makeRoom(recent: TurnRecord[]): void {
  if (recent.length <= LIMITS.turnHistory) return;
  const ended = recent.findIndex((record) => record.endedAt !== null);
  if (ended >= 0) recent.splice(ended, 1);
  else if (recent.length > LIMITS.turnHistory + LIMITS.queueLength) recent.shift();
}

function text(value: unknown): string | null {
  return typeof value === "string" ? clip(value, LIMITS.labelChars) : null;
}
