import { ErrorCode, errorResponse, type RpcError } from "../../../protocol/errors.ts";
import { isFault, mustReadFrame, readFrame } from "../../../protocol/frame.ts";
import { readHead } from "../../../protocol/message-head.ts";
import type { Batch } from "./batch.ts";
import { type ClientInput, refuseFrame } from "./client-frames.ts";

/**
 * Skips a frame of a client that ended the session's object again and again. An `error` fact says so, and nobody waits
 * for the frame: a request is answered, and the agent gets an error in the place of an answer. Of the frame itself the
 * log has nothing but its id, its method and its length.
 */
export function skipFrame(batch: Batch, client: ClientInput, raw: string, ends: number): void {
  const substitute = substituteFor(raw);
  if (substitute !== undefined) refuseFrame(batch, client, mustReadFrame(substitute), SKIPPED);
  noteSkipped(batch, raw, ends);
}

/** Notes a skipped frame whose sender is told by its connection. */
export function noteSkipped(batch: Batch, raw: string, ends: number): void {
  const message = `A frame of a client (${raw.length} characters) is skipped: the session ended ${ends} times while it took the frame`;
  batch.fact("gateway", "error", {
    ...{ origin: "gateway", code: ErrorCode.internal, detailCode: "frame_skipped", message },
  });
}

/** A frame with nothing but the id and the method. Only a short text is parsed: a long one may be the trouble itself. */
function substituteFor(raw: string): string | undefined {
  if (raw.length <= PARSED_CHARS) {
    const frame = readFrame(raw);
    if (isFault(frame) || frame.kind === "invalid") return undefined;
    if (frame.kind === "response") return errorResponse(frame.idText, SKIPPED);
    const id = frame.idText === undefined ? "" : `"id":${frame.idText},`;
    return `{"jsonrpc":"2.0",${id}"method":${JSON.stringify(frame.method)}}`;
  }
  const head = readHead(raw);
  if (!head) return undefined;
  if (head.kind === "response") return errorResponse(head.idText, SKIPPED);
  return `{"jsonrpc":"2.0","id":${head.idText},"method":"_skipped"}`;
}

const SKIPPED: RpcError = { code: ErrorCode.internal, message: "The gateway could not record this message" };

const PARSED_CHARS = 64 * 1024;
