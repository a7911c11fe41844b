import { MetaKey } from "./extensions.ts";
import { type Frame, mustReadFrame, paramsOf, type RequestFrame } from "./frame.ts";
import { recordOf } from "./json-value.ts";

/**
 * The messages of readers: callers without `session:prompt`, such as the bearers of share links. A reader's connection
 * serves `initialize`, `session/list`, the renewal of its token and the answer to a ping. Only the two requests below
 * reach a session, in a form that holds nothing but what the session needs.
 */

const ATTACHING: ReadonlySet<string> = new Set(["session/load", "session/resume"]);

/** Whether the frame asks to read a session. */
export function isReaderRequest(frame: Frame): boolean {
  return frame.kind === "request" && ATTACHING.has(frame.method);
}

/** The request by which a reader attaches to a session, without anything that is not needed for that. */
export function readerRequest(frame: Frame): RequestFrame | undefined {
  if (frame.kind !== "request" || !isReaderRequest(frame) || frame.sessionId === undefined) return undefined;
  const { cwd, _meta } = paramsOf(frame);
  const params = { sessionId: frame.sessionId, cwd: pathOf(cwd) ?? "/", mcpServers: [], ...metaOf(_meta) };
  const method = JSON.stringify(frame.method);
  const text = `{"jsonrpc":"2.0","id":${frame.idText},"method":${method},"params":${JSON.stringify(params)}}`;
  const read = mustReadFrame(text);
  return read.kind === "request" ? read : undefined;
}

/** No system has longer paths. */
export const PATH_CHARS = 4096;

/** A path that is short enough to be kept. */
export function pathOf(value: unknown): string | undefined {
  return typeof value === "string" && value.length <= PATH_CHARS ? value : undefined;
}

/** Whether a path is absolute, on the system of whoever wrote it. */
export function isAbsolutePath(path: string): boolean {
  return /^(?:\/|[A-Za-z]:[\\/]|\\\\)/u.test(path);
}

/** Longer than any id of a connection. */
const CONNECTION_ID_CHARS = 64;

function metaOf(meta: unknown): { _meta?: Record<string, unknown> } {
  const { [MetaKey.after]: after, [MetaKey.as]: as } = recordOf(meta);
  const kept = {
    // The session refuses a cursor that is no number, and needs not see which one.
    ...(after != null && { [MetaKey.after]: typeof after === "number" ? after : false }),
    ...(typeof as === "string" && as.length <= CONNECTION_ID_CHARS && { [MetaKey.as]: as }),
  };
  return Object.keys(kept).length > 0 ? { _meta: kept } : {};
}
