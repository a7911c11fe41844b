import { eachMember, isObjectAt, isStringAt, type Span, skipSpace, skipValue } from "./json-text.ts";
import { isRecord, type JsonObject, recordOf, textOf } from "./json-value.ts";

/**
 * One JSON-RPC message, kept as the text its sender wrote.
 *
 * A router needs to know very little of a message: its kind, its id, its method, its session. So we look those up and
 * remember where they stand in the text. Forwarding replaces exactly these spans and leaves every other byte alone: big
 * integers, key order, `_meta`, duplicate keys, `1.0`, unknown fields.
 */

export type Frame = RequestFrame | NotificationFrame | ResponseFrame | InvalidFrame;
export type FrameKind = Frame["kind"];

export type RequestFrame = FrameBase & {
  readonly kind: "request";
  /** The id as its sender wrote it: `7`, `7.0` and `"7"` are three different ids. */
  readonly idText: string;
  readonly method: string;
};

export type NotificationFrame = FrameBase & {
  readonly kind: "notification";
  readonly idText: undefined;
  readonly method: string;
};

export type ResponseFrame = FrameBase & {
  readonly kind: "response";
  readonly idText: string;
  readonly method: undefined;
};

/** A JSON object that is no JSON-RPC message. */
export type InvalidFrame = FrameBase & {
  readonly kind: "invalid";
  readonly idText: string | undefined;
  readonly method: undefined;
};

type FrameBase = {
  readonly raw: string;
  readonly value: JsonObject;
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
  /** `path` in `params`: a file that the agent wants. */
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

/** Reads a message whose JSON has been parsed already. */
export function frameOf(raw: string, value: unknown): Frame | FrameFault {
  if (!isRecord(value)) return { fault: Array.isArray(value) ? "batch" : "not-object" };
  const spans = locate(raw);
  const { method } = value;
  const idText = spans.id && raw.slice(spans.id.start, spans.id.end);
  if (typeof method === "string") {
    const sessionId = sessionIdOf(value.params);
    return idText === undefined
      ? { raw, value, kind: "notification", idText, method, sessionId, spans }
      : { raw, value, kind: "request", idText, method, sessionId, spans };
  }
  const sessionId = sessionIdOf(value.result);
  const isResponse = !("method" in value) && ("result" in value || "error" in value);
  return isResponse && idText !== undefined
    ? { raw, value, kind: "response", idText, method: undefined, sessionId, spans }
    : { raw, value, kind: "invalid", idText, method: undefined, sessionId, spans };
}

/** Reads a message that this gateway wrote, or has read before. */
export function mustReadFrame(raw: string): Frame {
  const frame = readFrame(raw);
  if (isFault(frame)) throw new Error(`Not a frame: ${frame.fault}`);
  return frame;
}

/** The parameters of a request or a notification; an empty object where they are none. */
export function paramsOf(frame: Frame): JsonObject {
  return recordOf(frame.value.params);
}

/** The result of a response; an empty object where it is none. */
export function resultOf(frame: Frame): JsonObject {
  return recordOf(frame.value.result);
}

export function isFault(read: Frame | FrameFault): read is FrameFault {
  return "fault" in read;
}

const PLACES = ["id", "sessionId", "requestId", "cwd", "path", "additionalDirectories"] as const;

/** New texts for the spans that a gateway may rewrite, each a JSON value. */
export type Rewrite = { [Place in keyof Spans]?: string };

/** The frame's text with the given spans replaced. Spans that the frame does not have are ignored. */
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

/** The message on one line. Line breaks in valid JSON are white space: inside strings they are escaped. */
export function oneLine(raw: string): string {
  return raw.includes("\n") || raw.includes("\r") ? raw.replace(/[\r\n]/g, " ") : raw;
}

function sessionIdOf(body: unknown): string | undefined {
  return textOf(recordOf(body).sessionId);
}

const IN_PARAMS: ReadonlySet<string> = new Set(PLACES.slice(1));

// ---- positions in the text ----------------------------------------------------------------------------
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
