import { parseCursor } from "../../protocol/cursor.ts";
import { MetaKey } from "../../protocol/extensions.ts";
import { type Frame, type FrameKind, isFault, readFrame, rewrite } from "../../protocol/frame.ts";

/** The cursor of one session's stream, and the connection in which it was read. */
export type SessionCursor = { connection: string; cursor: string };

/**
 * The requests that replace a connection which the gateway has forgotten. They repeat the editor's `initialize` and
 * resume each session at its cursor, on behalf of the old connection.
 */
export function restorationRequests(
  initialize: string,
  cursors: ReadonlyMap<string, SessionCursor>,
): { id: string; line: string }[] {
  const frame = readFrame(initialize);
  if (isFault(frame)) return [];
  const introduction = {
    id: `${PREFIX}${INTRODUCTION}`,
    line: rewrite(frame, { id: `"${PREFIX}${INTRODUCTION}"` }),
  };
  const resumptions = [...cursors].map(([sessionId, { connection, cursor }]) => {
    const id = `${PREFIX}${sessionId}`;
    const _meta = { [MetaKey.after]: parseCursor(cursor)?.seq ?? 0, [MetaKey.as]: connection };
    const params = { sessionId, cwd: "/", mcpServers: [], _meta };
    return { id, line: JSON.stringify({ jsonrpc: "2.0", id, method: "session/resume", params }) };
  });
  return [introduction, ...resumptions];
}

/** Whether a line is a restoration request. The next restoration creates such requests anew. */
export function isRestorationRequest(line: string): boolean {
  return line.includes(PREFIX) && idOf(line, "request") !== undefined;
}

/** The response to a restoration request: its id, its session if it has one, and the message of its error. */
export function readRestorationResponse(
  line: string,
): { id: string; sessionId: string | undefined; error: string | null } | undefined {
  if (!line.includes(PREFIX)) return undefined;
  const found = idOf(line, "response");
  if (!found) return undefined;
  const error = found.value.error as { message?: string } | null | undefined;
  const about = found.id.slice(PREFIX.length);
  return {
    id: found.id,
    sessionId: about === INTRODUCTION ? undefined : about,
    error: error ? (error.message ?? "unknown error") : null,
  };
}

function idOf(line: string, kind: FrameKind): { id: string; value: Frame["value"] } | undefined {
  const frame = readFrame(line);
  if (isFault(frame) || frame.kind !== kind) return undefined;
  const { id } = frame.value;
  return typeof id === "string" && id.startsWith(PREFIX) ? { id, value: frame.value } : undefined;
}

const PREFIX = "acp-edge/restore/";
const INTRODUCTION = "initialize";
