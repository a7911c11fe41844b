import type { Frame } from "../frame.ts";
import type { Fields } from "./message.ts";
import type { Translation } from "./requests.ts";

/**
 * Older forms of ACP, spoken with a client at the edge: the log and the agent see canonical ACP v1 only.
 * Which one it is is known from `initialize` and does not change; a canonical client has none.
 */
export type Dialect = {
  /** The client's `initialize` in canonical ACP, and our answer in its own terms. */
  initialize(params: Fields): Fields;
  initialized(result: Fields, offered: Fields): Fields;
  /** Throws InvalidParams. */
  fromClient(frame: Frame): Translation;
  toClient(raw: string, sessionId: string): string[];
};
