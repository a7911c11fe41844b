import { ErrorCode, type RpcError } from "../../../protocol/errors.ts";
import type { Frame } from "../../../protocol/frame.ts";
import type { Limits } from "../../../protocol/limits.ts";

/** Refusals of requests, from either side, that would let the session's state grow without bound. */

export function tooMany({ openRequests }: Limits, open: number, who: string): RpcError | undefined {
  if (open < openRequests) return undefined;
  return { code: ErrorCode.invalidRequest, message: `${who} ${openRequests} requests` };
}

export function methodTooLong({ idChars }: Limits, { method }: Frame): RpcError | undefined {
  if ((method?.length ?? 0) <= idChars) return undefined;
  return { code: ErrorCode.invalidRequest, message: `The method exceeds ${idChars} characters` };
}

export function idTooLong({ idChars }: Limits, { idText }: Frame): RpcError | undefined {
  if ((idText?.length ?? 0) <= idChars) return undefined;
  return { code: ErrorCode.invalidRequest, message: `The id exceeds ${idChars} characters` };
}
