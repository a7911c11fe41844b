import type { Frame } from "../frame.ts";
import type { JsonObject } from "../json-value.ts";
import type { Translation } from "./requests.ts";

/** What the workspace knows of the agent beyond the agent's own answer to `initialize`. */
export type KnownOfAgent = {
  readonly modes?: readonly string[] | undefined;
  /** The name that the workspace has set for the agent. */
  readonly agentName?: string | undefined;
};

/**
 * An older form of ACP, spoken with a client at the edge only: the log and the agent see canonical ACP v1. The client's
 * `initialize` decides its dialect for good. A canonical client has no dialect.
 */
export type Dialect = {
  /** The parameters of the client's `initialize` in canonical ACP. */
  initialize(params: JsonObject): JsonObject;
  /** The result of `initialize` in the dialect. */
  initialized(result: JsonObject, offered: JsonObject, known: KnownOfAgent): JsonObject;
  /** Throws InvalidParams for parameters that the dialect does not have. */
  fromClient(frame: Frame): Translation;
  /** One canonical message as the messages of the dialect. */
  toClient(raw: string, sessionId: string): string[];
};
