import { ErrorCode, type RpcError } from "./errors.ts";
import type { Frame, FrameFault } from "./frame.ts";

/** Errors for a text that is not a JSON-RPC message. */
export const FAULTS = {
  parse: { code: ErrorCode.parse, message: "Parse error" },
  batch: { code: ErrorCode.invalidRequest, message: "JSON-RPC batches are not supported" },
  "not-object": { code: ErrorCode.invalidRequest, message: "Invalid Request" },
  "too-complex": {
    code: ErrorCode.invalidRequest,
    message: "The message is nested too deeply, or has too many values",
  },
  ambiguous: {
    code: ErrorCode.invalidRequest,
    message: "The message has a member twice, or a member whose name differs from another only in case",
  },
} as const satisfies Record<FrameFault["fault"], RpcError>;

/** The refusal of a method name over the limit. The name is not repeated. */
export function methodTooLong(
  { method = "" }: Pick<Frame, "method">,
  maxChars: number,
): RpcError | undefined {
  if (method.length <= maxChars) return undefined;
  return { code: ErrorCode.invalidRequest, message: `The method exceeds ${maxChars} characters` };
}

/** The refusal of a message of another protocol than JSON-RPC 2.0. A response is taken: the agent waits for it. */
export function wrongVersion({ kind, value }: Frame): RpcError | undefined {
  if (kind === "response" || value.jsonrpc === "2.0") return undefined;
  return { code: ErrorCode.invalidRequest, message: 'The member jsonrpc must be "2.0"' };
}

/** Whether the frame's id, or the session id in it, has more than `idChars` characters. */
export function isIdTooLong({ idText, sessionId }: Frame, idChars: number): boolean {
  // The text of a string id includes its quotes.
  return (idText?.length ?? 0) > idChars + 2 || (sessionId?.length ?? 0) > idChars;
}
