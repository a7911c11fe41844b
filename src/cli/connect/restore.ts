import { isFault, readFrame, rewrite } from "../../protocol/frame.ts";
import { parseCursor } from "../../protocol/resume.ts";

/**
 * When the gateway has forgotten a connection, another one takes its place: it introduces itself as the editor
 * did, and goes on reading each session where the old one was, in its name.
 */
export function restoration(
  initialize: string,
  old: string,
  cursors: ReadonlyMap<string, string>,
): { id: string; line: string }[] {
  const frame = readFrame(initialize);
  if (isFault(frame)) return [];
  const introduction = { id: `${PREFIX}initialize`, line: rewrite(frame, { id: `"${PREFIX}initialize"` }) };
  const resumptions = [...cursors].map(([sessionId, cursor]) => {
    const id = `${PREFIX}${sessionId}`;
    const _meta = { "acp-edge/after": parseCursor(cursor)?.upTo ?? 0, "acp-edge/as": old };
    const params = { sessionId, cwd: "/", mcpServers: [], _meta };
    return { id, line: JSON.stringify({ jsonrpc: "2.0", id, method: "session/resume", params }) };
  });
  return [introduction, ...resumptions];
}

/** What a line answers, if it is one of ours: the error's words, or null for none. */
export function restored(line: string): { id: string; error: string | null } | undefined {
  if (!line.includes(PREFIX)) return undefined;
  const frame = readFrame(line);
  if (isFault(frame) || frame.kind !== "response") return undefined;
  const { id, error } = frame.value as { id?: unknown; error?: { message?: string } | null };
  if (typeof id !== "string" || !id.startsWith(PREFIX)) return undefined;
  return { id, error: error ? (error.message ?? "an error") : null };
}

const PREFIX = "acp-edge/restore/";
