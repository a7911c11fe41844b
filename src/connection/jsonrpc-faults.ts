import { ErrorCode, type RpcError } from "../protocol/errors.ts";
import type { Frame } from "../protocol/frame.ts";
import { LIMITS } from "../protocol/limits.ts";

/** What is wrong with a text that is not a JSON-RPC message. */
export const FAULTS = {
  parse: { code: ErrorCode.parse, message: "Parse error" },
  batch: { code: ErrorCode.invalidRequest, message: "JSON-RPC batches are not supported" },
  "not-object": { code: ErrorCode.invalidRequest, message: "Invalid Request" },
} as const satisfies Record<string, RpcError>;

export function idTooLong({ idText, sessionId }: Frame): boolean {
  // The text of an id has its quotes.
  return (idText?.length ?? 0) > LIMITS.idChars + 2 || (sessionId?.length ?? 0) > LIMITS.idChars;
}
