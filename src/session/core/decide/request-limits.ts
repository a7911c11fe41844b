import { ErrorCode, type RpcError } from "../../../protocol/errors.ts";
import type { Frame } from "../../../protocol/frame.ts";
import { LIMITS } from "../../../protocol/limits.ts";

/** Why a session takes a request no further, whoever it is from: its state must not grow without end. */

export function tooMany(open: number, who: string): RpcError | undefined {
  if (open < LIMITS.openRequests) return undefined;
  return { code: ErrorCode.invalidRequest, message: `${who} ${LIMITS.openRequests} requests` };
}

export function methodTooLong({ method }: Frame): RpcError | undefined {
  if ((method?.length ?? 0) <= LIMITS.idChars) return undefined;
  return { code: ErrorCode.invalidRequest, message: `The method exceeds ${LIMITS.idChars} characters` };
}

export function idTooLong({ idText }: Frame): RpcError | undefined {
  if ((idText?.length ?? 0) <= LIMITS.idChars) return undefined;
  return { code: ErrorCode.invalidRequest, message: `The id exceeds ${LIMITS.idChars} characters` };
}
