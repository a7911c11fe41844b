import { z } from "zod";
import { MetaKey } from "./extensions.ts";
import { type Frame, paramsOf } from "./frame.ts";
import { recordOf } from "./json-value.ts";

/**
 * The meaning of a client's `session/close`: the session ends, or only this client leaves it. `auto`: the client leaves a
 * session that somebody else uses, and ends any other.
 */
export const CLOSE_MEANING = z.enum(["auto", "end", "detach"]);
export type CloseMeaning = z.infer<typeof CLOSE_MEANING>;

/** The meaning that the client itself gives its `session/close`, if it does. */
export function askedMeaning(frame: Frame): CloseMeaning | undefined {
  return CLOSE_MEANING.safeParse(recordOf(paramsOf(frame)._meta)[MetaKey.closeMeans]).data;
}
