import { ErrorCode, errorResponse, type RpcError } from "../../../protocol/errors.ts";
import { isFault, mustReadFrame, readFrame } from "../../../protocol/frame.ts";
import { parseHostEvent } from "../../../protocol/host-wire.ts";
import { type MessageHead, readHead } from "../../../protocol/message-head.ts";
import { tell } from "./agent-process.ts";
import { refuse } from "./asking.ts";
import type { Batch } from "./batch.ts";
import { hostItem } from "./host-items.ts";

/**
 * Skips an item of the run that the session cannot record, or that ended its object again and again. An `error` fact
 * says so, and nobody waits for the item: an answer becomes an error, and a request gets one. Of the item itself the log
 * has nothing but its number and its length.
 */
export function skipItem(batch: Batch, line: string, reason: string): void {
  const item = (batch.state.run?.received ?? 0) + 1;
  const message = `Item ${item} of the agent process (${line.length} characters) is skipped: ${reason}`;
  const isReplaced = replace(batch, line);
  // A host counts its items: the fact stands for an item that nothing else stands for.
  batch.fact(isReplaced ? "gateway" : "host", "error", {
    ...{ origin: "gateway", code: ErrorCode.internal, detailCode: "item_skipped", message, item },
  });
  // Nobody waits for an update, so its clients would take the conversation for complete.
  if (!isReplaced && line.startsWith("{"))
    tell(batch, "agent.violation", `A message of the agent is missing: ${reason}`);
}

/** Skips an item whose place nothing but a fact can take. */
export function dropItem(batch: Batch, line: string, reason: string): void {
  skipItem(batch, "", `${reason}, and neither could an error in its place (${line.length} characters)`);
}

/** Puts an error in the place of the item, where somebody would wait for the item. */
function replace(batch: Batch, line: string): boolean {
  if (line.startsWith("[")) return replaceEvent(batch, line);
  const head = headOf(line);
  if (head?.kind === "response") hostItem(batch, errorResponse(head.idText, SKIPPED));
  if (head?.kind === "request") refuseSkipped(batch, head.idText);
  return head !== undefined;
}

function refuseSkipped(batch: Batch, idText: string): void {
  const frame = mustReadFrame(`{"jsonrpc":"2.0","id":${idText},"method":"_skipped"}`);
  if (frame.kind === "request") refuse(batch, frame, SKIPPED);
}

/** The exit of the process and the answers of its host; nothing depends on the other events. */
function replaceEvent(batch: Batch, line: string): boolean {
  if (line.startsWith('["exit"')) {
    const [kind, exit] = parseHostEvent(line) ?? [];
    const { code = null, signal = null } = kind === "exit" ? exit : {};
    hostItem(batch, JSON.stringify(["exit", { code, signal, stderr: "" }]));
    return true;
  }
  const answer = line.startsWith(ANSWER) ? line.slice(ANSWER.length, -ANSWER_END.length) : "";
  const head = readHead(unescaped(answer.slice(0, HEAD_CHARS)), unescaped(answer.slice(-HEAD_CHARS)));
  if (head?.kind !== "response") return false;
  hostItem(batch, JSON.stringify(["answer", errorResponse(head.idText, SKIPPED)]));
  return true;
}

function unescaped(text: string): string {
  return text.replaceAll('\\"', '"');
}

/** Only a short text is parsed: a long one may be the reason why the item cannot be taken. */
function headOf(line: string): MessageHead | undefined {
  const head = readHead(line);
  if (head || line.length > PARSED_CHARS) return head;
  const frame = readFrame(line);
  if (isFault(frame) || (frame.kind !== "request" && frame.kind !== "response")) return undefined;
  return { kind: frame.kind, idText: frame.idText };
}

const SKIPPED: RpcError = { code: ErrorCode.internal, message: "The gateway could not record this message" };

const ANSWER = '["answer","';
const ANSWER_END = '"]';
const HEAD_CHARS = 1024;
const PARSED_CHARS = 64 * 1024;
