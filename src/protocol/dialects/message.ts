import { ErrorCode, type RpcError } from "../errors.ts";
import { type Frame, isFault, readFrame } from "../frame.ts";

/** What translators of messages have in common. */

export type Fields = Record<string, unknown>;

/** Thrown by a translator for parameters that its dialect does not allow. */
export class InvalidParams extends Error {
  get rpcError(): RpcError {
    return { code: ErrorCode.invalidParams, message: this.message };
  }
}

export function isFields(value: unknown): value is Fields {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

export function fields(value: unknown): Fields {
  return isFields(value) ? value : {};
}

export function text(value: unknown): string | undefined {
  return typeof value === "string" ? value : undefined;
}

export function without(from: Fields, ...names: string[]): Fields {
  return Object.fromEntries(Object.entries(from).filter(([name]) => !names.includes(name)));
}

/** The same with something added to its `_meta`. */
export function withMeta(to: Fields, added: Fields): Fields {
  return Object.keys(added).length === 0 ? to : { ...to, _meta: { ...fields(to._meta), ...added } };
}

/** The frame with other parameters. Its id stays as it was written. */
export function withParams(frame: Frame, params: Fields): Frame {
  const members = Object.entries({ ...frame.value, params }).map(
    ([name, value]) => `${JSON.stringify(name)}:${name === "id" ? frame.idText : JSON.stringify(value)}`,
  );
  const changed = readFrame(`{${members.join(",")}}`);
  if (isFault(changed)) throw new Error("A translator made a frame that is not a JSON object");
  return changed;
}
