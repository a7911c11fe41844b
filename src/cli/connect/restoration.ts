import { parseCursor } from "../../protocol/cursor.ts";
import { MetaKey } from "../../protocol/extensions.ts";
import { type Frame, type FrameKind, isFault, readFrame, rewrite } from "../../protocol/frame.ts";

/** How far a session's stream has been read, in which connection. */
export type Place = { connection: string; cursor: string };

/**
 * When the gateway has forgotten a connection, another one takes its place: it introduces itself as the editor
 * did, and goes on reading each session where the old one was, in its name.
 */
export function restoration(
  initialize: string,
  places: ReadonlyMap<string, Place>,
): { id: string; line: string }[] {
  const frame = readFrame(initialize);
  if (isFault(frame)) return [];
  const introduction = {
    id: `${PREFIX}${INTRODUCTION}`,
    line: rewrite(frame, { id: `"${PREFIX}${INTRODUCTION}"` }),
  };
  const resumptions = [...places].map(([sessionId, { connection, cursor }]) => {
    const id = `${PREFIX}${sessionId}`;
    const _meta = { [MetaKey.after]: parseCursor(cursor)?.seq ?? 0, [MetaKey.as]: connection };
    const params = { sessionId, cwd: "/", mcpServers: [], _meta };
    return { id, line: JSON.stringify({ jsonrpc: "2.0", id, method: "session/resume", params }) };
  });
  return [introduction, ...resumptions];
}

/** Whether a line is a request of ours that was not sent: the next restoration makes it anew. */
export function isRestoration(line: string): boolean {
  return line.includes(PREFIX) && idOf(line, "request") !== undefined;
}

/** What a line answers, if it is one of ours: its id, the session if it is about one, and the error's words. */
export function restored(
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
    error: error ? (error.message ?? "an error") : null,
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
