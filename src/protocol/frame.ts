import { eachMember, isObjectAt, isStringAt, type Span, skipSpace, skipValue } from "./json-text.ts";

/**
 * One JSON-RPC message, kept as the text its sender wrote.
 *
 * A router needs to know very little of a message: what kind it is, its id, its method, its session. So we
 * look those up and remember where they stand in the text. Forwarding replaces exactly these places and
 * leaves every other byte alone: big integers, key order, `_meta`, duplicate keys, `1.0`, unknown fields.
 */

export type FrameKind = "request" | "notification" | "response" | "invalid";

export type Frame = {
  readonly raw: string;
  readonly kind: FrameKind;
  readonly value: Readonly<Record<string, unknown>>;
  /** The id as its sender wrote it: `7`, `7.0` and `"7"` are three different ids. */
  readonly idText: string | undefined;
  readonly method: string | undefined;
  /** `params.sessionId`, or `result.sessionId` of a response, when it is a string. */
  readonly sessionId: string | undefined;
  readonly spans: Spans;
};

type Spans = {
  id: Span | undefined;
  /** `sessionId` in `params` or `result`. */
  sessionId: Span | undefined;
  /** `requestId` in `params`: the companion of an id in `$/cancel_request` and `elicitation/create`. */
  requestId: Span | undefined;
  /** `cwd` in `params`: an editor names a directory of its own machine. */
  cwd: Span | undefined;
  /** `path` in `params`, of a file that the agent wants. */
  path: Span | undefined;
  /** `additionalDirectories` in `params`: like `cwd`. */
  additionalDirectories: Span | undefined;
};

export type FrameFault = { readonly fault: "parse" | "batch" | "not-object" };

/** Reads a message; a fault means that the text is not one JSON object. */
export function readFrame(raw: string): Frame | FrameFault {
  let value: unknown;
  try {
    value = JSON.parse(raw);
  } catch {
    return { fault: "parse" };
  }
  return frameOf(raw, value);
}

/** Reads a message of our own making, or one that was read as a frame before. */
export function mustReadFrame(raw: string): Frame {
  const frame = readFrame(raw);
  if (isFault(frame)) throw new Error(`Not a frame: ${frame.fault}`);
  return frame;
}

/** The same for a text that has been parsed already. */
export function frameOf(raw: string, value: unknown): Frame | FrameFault {
  if (Array.isArray(value)) return { fault: "batch" };
  if (typeof value !== "object" || value === null) return { fault: "not-object" };
  const message = value as Record<string, unknown>;
  const spans = locate(raw);
  const method = typeof message.method === "string" ? message.method : undefined;
  return {
    raw,
    value: message,
    kind: kindOf(message, method),
    idText: spans.id && raw.slice(spans.id.start, spans.id.end),
    method,
    sessionId: sessionIdOf(method === undefined ? message.result : message.params),
    spans,
  };
}

export function isFault(read: Frame | FrameFault): read is FrameFault {
  return "fault" in read;
}

const PLACES = ["id", "sessionId", "requestId", "cwd", "path", "additionalDirectories"] as const;

/** New texts for the places a gateway may rewrite, each a JSON value. */
export type Rewrite = { [Place in keyof Spans]?: string };

/** The frame's text with the given places replaced; places the frame does not have are ignored. */
export function rewrite(frame: Frame, texts: Rewrite): string {
  const edits: { span: Span; text: string }[] = [];
  for (const place of PLACES) {
    const span = frame.spans[place];
    const text = texts[place];
    if (span && text !== undefined) edits.push({ span, text });
  }
  edits.sort((a, b) => a.span.start - b.span.start);
  let out = "";
  let at = 0;
  for (const { span, text } of edits) {
    out += frame.raw.slice(at, span.start) + text;
    at = span.end;
  }
  return out + frame.raw.slice(at);
}

/** The same message on one line. Line breaks in valid JSON are white space: inside strings they are escaped. */
export function oneLine(raw: string): string {
  return raw.includes("\n") || raw.includes("\r") ? raw.replace(/[\r\n]/g, " ") : raw;
}

function kindOf(message: Record<string, unknown>, method: string | undefined): FrameKind {
  if (method !== undefined) return "id" in message ? "request" : "notification";
  if (!("method" in message) && "id" in message && ("result" in message || "error" in message))
    return "response";
  return "invalid";
}

function sessionIdOf(body: unknown): string | undefined {
  if (typeof body !== "object" || body === null) return undefined;
  const id = (body as Record<string, unknown>).sessionId;
  return typeof id === "string" ? id : undefined;
}

const IN_PARAMS: ReadonlySet<string> = new Set(PLACES.slice(1));

// ---- where things stand -------------------------------------------------------------------------------
// Of duplicate keys the last one counts, as it does for JSON.parse.

function locate(raw: string): Spans {
  const spans: Spans = {
    id: undefined,
    sessionId: undefined,
    requestId: undefined,
    cwd: undefined,
    path: undefined,
    additionalDirectories: undefined,
  };
  let params: Partial<Spans> = {};
  let result: Partial<Spans> = {};
  let hasMethod = false;
  eachMember(raw, skipSpace(raw, 0), (key, start) => {
    switch (key) {
      case "id": {
        const end = skipValue(raw, start);
        spans.id = { start, end };
        return end;
      }
      case "params":
      case "result": {
        const inner: Partial<Spans> = {};
        if (key === "params") params = inner;
        else result = inner;
        if (!isObjectAt(raw, start)) return skipValue(raw, start);
        return eachMember(raw, start, (name, at) => {
          const end = skipValue(raw, at);
          if (IN_PARAMS.has(name)) inner[name as keyof Spans] = { start: at, end };
          return end;
        });
      }
      case "method":
        hasMethod = isStringAt(raw, start);
        return skipValue(raw, start);
      default:
        return skipValue(raw, start);
    }
  });
  return { ...spans, ...(hasMethod ? params : { sessionId: result.sessionId }) };
}
