import { ErrorCode, type RpcError } from "../errors.ts";
import { type Frame, mustReadFrame } from "../frame.ts";
import { type JsonObject, recordOf } from "../json-value.ts";

/** Shared parts of the dialects: building messages with other members. */

/** Thrown for parameters that the dialect does not have. */
export class InvalidParams extends Error {
  get rpcError(): RpcError {
    return { code: ErrorCode.invalidParams, message: this.message };
  }
}

export function without(from: JsonObject, ...names: string[]): JsonObject {
  return Object.fromEntries(Object.entries(from).filter(([name]) => !names.includes(name)));
}

/** The object with more members in its `_meta`. */
export function withMeta(to: JsonObject, added: JsonObject): JsonObject {
  return Object.keys(added).length === 0 ? to : { ...to, _meta: { ...recordOf(to._meta), ...added } };
}

/** The frame with other parameters. The id keeps its text. */
export function withParams(frame: Frame, params: JsonObject): Frame {
  const members = Object.entries({ ...frame.value, params }).map(
    ([name, value]) => `${JSON.stringify(name)}:${name === "id" ? frame.idText : JSON.stringify(value)}`,
  );
  return mustReadFrame(`{${members.join(",")}}`);
}
