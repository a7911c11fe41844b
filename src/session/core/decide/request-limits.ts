import { ErrorCode, type RpcError } from "../../../protocol/errors.ts";
import type { Frame } from "../../../protocol/frame.ts";
import type { Limits } from "../../../protocol/limits.ts";

/** Refusals of requests, from either side, that would let the session's state grow without bound. */

export function tooMany({ openRequests }: Limits, open: number, who: string): RpcError | undefined {
  if (open < openRequests) return undefined;
  return { code: ErrorCode.invalidRequest, message: `${who} ${openRequests} requests` };
}

/** A client that attaches gets all open requests of the agent at once, so they are bounded in size as well. */
export function tooLarge(
  { openRequestChars }: Limits,
  frame: Frame,
  open: Iterable<Frame>,
): RpcError | undefined {
  let chars = frame.raw.length;
  for (const { raw } of open) chars += raw.length;
  if (chars <= openRequestChars) return undefined;
  const message = `The requests that clients have not answered exceed ${openRequestChars} characters`;
  return { code: ErrorCode.invalidRequest, message };
}

export function idTooLong({ idChars }: Limits, { idText }: Frame): RpcError | undefined {
  if ((idText?.length ?? 0) <= idChars) return undefined;
  return { code: ErrorCode.invalidRequest, message: `The id exceeds ${idChars} characters` };
}
