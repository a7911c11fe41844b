import { ErrorCode, type RpcError } from "./errors.ts";
import type { Frame } from "./frame.ts";

/** Errors for a text that is not a JSON-RPC message. */
export const FAULTS = {
  parse: { code: ErrorCode.parse, message: "Parse error" },
  batch: { code: ErrorCode.invalidRequest, message: "JSON-RPC batches are not supported" },
  "not-object": { code: ErrorCode.invalidRequest, message: "Invalid Request" },
} as const satisfies Record<string, RpcError>;

/** Whether the frame's id, or the session id in it, has more than `idChars` characters. */
export function isIdTooLong({ idText, sessionId }: Frame, idChars: number): boolean {
  // The text of a string id includes its quotes.
  return (idText?.length ?? 0) > idChars + 2 || (sessionId?.length ?? 0) > idChars;
}
