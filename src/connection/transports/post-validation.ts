import { type Frame, paramsOf } from "../../protocol/frame.ts";
import { parseClientRequestId } from "../../protocol/ids.ts";
import { textOf } from "../../protocol/json-value.ts";
import { isIdTooLong } from "../../protocol/jsonrpc-faults.ts";

/**
 * The reason why a posted message is refused before anything is done about it, if there is one. Over HTTP a header and
 * the message both name the session, and must agree.
 */
export function postError(
  frame: Frame,
  header: string | undefined,
  idChars: number,
  isAttached: (sessionId: string) => boolean,
): string | undefined {
  if ((header?.length ?? 0) > idChars || isIdTooLong(frame, idChars))
    return `Ids have at most ${idChars} characters`;
  if (frame.kind === "response") {
    const asker = parseClientRequestId(frame.value.id)?.sessionId;
    return asker !== undefined && isAttached(asker) ? disagreement(header, asker) : undefined;
  }
  const named = namedSession(frame);
  if (named !== undefined) return disagreement(header, named);
  return SESSION_SCOPED.has(frame.method ?? "") && header === undefined ? MISSING : undefined;
}

/** Whether the answer goes to the connection's own stream, and not to the session's. */
export function isAnsweredOnConnection(frame: Frame): boolean {
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
  "session/detach",
  "session/delete",
  "session/fork",
  "session/load",
  "session/prompt",
  "session/resume",
  "session/set_config_option",
  "session/set_mode",
  "session/set_model",
  "session/set_title",
  "session/archive",
  "session/unarchive",
  "session/status",
]);
