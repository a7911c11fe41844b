import { reasonOf } from "../../node/log.ts";
import { ErrorCode, type RpcError } from "../../protocol/errors.ts";

/** Why a file or terminal request of an agent failed, as the agent sees it. */
export class IoFault extends Error {
  readonly code: number;
  readonly data: unknown;

  constructor(code: number, message: string, data?: unknown) {
    super(message);
    this.code = code;
    this.data = data;
  }
}

export function toRpcError(thrown: unknown): RpcError {
  if (!(thrown instanceof IoFault)) return { code: ErrorCode.internal, message: reasonOf(thrown) };
  return {
    code: thrown.code,
    message: thrown.message,
    ...(thrown.data !== undefined && { data: thrown.data }),
  };
}
