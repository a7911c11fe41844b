import { type Frame, paramsOf } from "../../protocol/frame.ts";
import { parseClientRequestId } from "../../protocol/ids.ts";
import { textOf } from "../../protocol/json-value.ts";
import { LIMITS } from "../../protocol/limits.ts";
import { idTooLong } from "../jsonrpc-faults.ts";

/**
 * Why a posted message is refused before anyone acts on it, if so. Over HTTP the session is named by a header
 * as well as in the message, and the two must agree.
 */
export function badPost(
  frame: Frame,
  header: string | undefined,
  isAttached: (sessionId: string) => boolean,
): string | undefined {
  if ((header?.length ?? 0) > LIMITS.idChars || idTooLong(frame))
    return `Ids have at most ${LIMITS.idChars} characters`;
  if (frame.kind === "response") {
    const asker = parseClientRequestId(frame.value.id)?.sessionId;
    return asker !== undefined && isAttached(asker) ? disagreement(header, asker) : undefined;
  }
  const named = namedSession(frame);
  if (named !== undefined) return disagreement(header, named);
  return SESSION_SCOPED.has(frame.method ?? "") && header === undefined ? MISSING : undefined;
}

/** The answers to these go to the connection's own stream, the rest to that of the session. */
export function answersOnConnection(frame: Frame): boolean {
  return frame.method === "session/new" || frame.method === "session/load";
}

function disagreement(header: string | undefined, sessionId: string): string | undefined {
  if (header === undefined) return MISSING;
  return header === sessionId ? undefined : "Mismatched Acp-Session-Id";
}

function namedSession(frame: Frame): string | undefined {
  return textOf(paramsOf(frame).sessionId);
}

const MISSING = "Missing Acp-Session-Id";

const SESSION_SCOPED: ReadonlySet<string> = new Set([
  "session/cancel",
  "session/close",
  "session/delete",
  "session/fork",
  "session/load",
  "session/prompt",
  "session/resume",
  "session/set_config_option",
  "session/set_mode",
  "session/set_model",
]);
