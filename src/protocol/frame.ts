import {
  countMembersIn,
  eachMember,
  hasTooManyValues,
  isObjectAt,
  isStringAt,
  MAX_DEPTH,
  type Span,
  skipSpace,
  skipValue,
  TooDeep,
} from "./json-text.ts";
import { isRecord, type JsonObject, recordOf, textOf } from "./json-value.ts";

/**
 * One JSON-RPC message, kept as the text its sender wrote.
 *
 * A router needs to know very little of a message: its kind, its id, its method, its session. So we look those up and
 * remember where they stand in the text. Forwarding replaces exactly these spans and leaves every other byte alone: big
 * integers, key order, `_meta`, `1.0`, unknown fields. The receiver must find the same members as the gateway did, so a
 * message that two JSON parsers read differently is none.
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
  /** The member that does not count in a response with both a result and an error. */
  surplus: Span | undefined;
};

export type FrameFault =
  | { readonly fault: "parse" | "batch" | "not-object" | "too-complex" }
  /** `frame` is the message as `JSON.parse` reads it, for an error to its sender and nothing else. */
  | { readonly fault: "ambiguous"; readonly frame: Frame };

/** Reads a message; a fault means that the text is not one JSON object, or that no program should handle it. */
export function readFrame(raw: string): Frame | FrameFault {
  return readText(raw, true);
}

/** Reads a logged message whose JSON has been parsed already. An earlier build may have taken an ambiguous one. */
export function frameOf(raw: string, value: unknown): Frame | FrameFault {
  return read(raw, value, false);
}

function readText(raw: string, isStrict: boolean): Frame | FrameFault {
  if (hasTooManyValues(raw)) return TOO_COMPLEX;
  let value: unknown;
  try {
    value = JSON.parse(raw);
  } catch {
    return { fault: "parse" };
  }
  return read(raw, value, isStrict);
}

function read(raw: string, value: unknown, isStrict: boolean): Frame | FrameFault {
  if (!isRecord(value)) return { fault: Array.isArray(value) ? "batch" : "not-object" };
  const located = membersIn(raw);
  if (!located) return TOO_COMPLEX;
  const frame = classify(raw, withoutSurplus(raw, value, located), located.spans);
  return isStrict && (isAmbiguous(located, value) || hasRepeatedMember(frame, value))
    ? { fault: "ambiguous", frame }
    : frame;
}

function classify(raw: string, value: JsonObject, spans: Spans): Frame {
  const { method } = value;
  if (!isId(value.id)) {
    const at = { idText: undefined, method: undefined, sessionId: undefined };
    return { raw, value, kind: "invalid", ...at, spans };
  }
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

/**
 * JSON-RPC allows a response one of `result` and `error`. Of both the error counts, unless it is null. The other member is
 * as good as absent: readers of the frame do not find it, and rewriting drops it.
 */
function withoutSurplus(raw: string, value: JsonObject, { spans, outcomes }: Located): JsonObject {
  if (!("result" in value && "error" in value) || "method" in value) return value;
  const { result, error, ...rest } = value;
  const surplus = error == null ? outcomes.error : outcomes.result;
  if (surplus) spans.surplus = wholeMember(raw, surplus);
  if (error == null) return { ...rest, result };
  spans.sessionId = undefined;
  return { ...rest, error };
}

/** A member of an object, from its value, with the comma that parts the member from a neighbour. Its name has no quotes. */
function wholeMember(raw: string, { start, end }: Span): Span {
  const name = raw.lastIndexOf('"', raw.lastIndexOf('"', start - 1) - 1);
  const next = skipSpace(raw, end);
  return raw[next] === "," ? { start: name, end: next + 1 } : { start: raw.lastIndexOf(",", name), end };
}

const TOO_COMPLEX: FrameFault = { fault: "too-complex" };

/** JSON-RPC knows no other ids. An id of another type could be of any size, and nobody could answer it. */
function isId(id: unknown): boolean {
  return id === undefined || id === null || typeof id === "string" || typeof id === "number";
}

/** Undefined for a message that is nested too deeply. */
function membersIn(raw: string): Located | undefined {
  try {
    return locate(raw);
  } catch (error) {
    if (error instanceof TooDeep) return undefined;
    throw error;
  }
}

/** Reads a message that this gateway wrote, or has read before. */
export function mustReadFrame(raw: string): Frame {
  const frame = readText(raw, false);
  if (!isFault(frame)) return frame;
  if (frame.fault === "too-complex") return unreadable(raw);
  throw new Error(`Not a frame: ${frame.fault}`);
}

/** An earlier build logged messages that this one refuses: the text stays, and nothing follows from it. */
function unreadable(raw: string): InvalidFrame {
  const value = {};
  const at = { idText: undefined, method: undefined, sessionId: undefined };
  return { raw, value, kind: "invalid", ...at, spans: locate("{}").spans };
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
export type Rewrite = { [Place in (typeof PLACES)[number]]?: string };

/** The frame's text with the given spans replaced, and without a surplus member. Spans that the frame does not have are ignored. */
export function rewrite(frame: Frame, texts: Rewrite): string {
  const edits: { span: Span; text: string }[] = [];
  for (const place of PLACES) {
    const span = frame.spans[place];
    const text = texts[place];
    if (span && text !== undefined) edits.push({ span, text });
  }
  if (frame.spans.surplus) edits.push({ span: frame.spans.surplus, text: "" });
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

type Located = {
  spans: Spans;
  /** A member of the message, or the session's id, has a name that a lenient parser takes for another. */
  hasVariant: boolean;
  /** How many members the text has: of the message, and of its `params` and `result`. */
  members: number;
  params: number;
  result: number;
  /** The values of `result` and `error`. */
  outcomes: { result?: Span; error?: Span };
};

/** Members of a message, and spellings that some parsers take for them: Go's, for one, folds case as Unicode does. */
const MEMBER_VARIANT = /^(?:jsonrpc|id|method|params|result|error)$/iu;
const SESSION_ID_VARIANT = /^sessionid$/iu;

/** Whether another parser may read another message: a member is repeated, or has the name of another in other case. */
function isAmbiguous(located: Located, value: JsonObject): boolean {
  return (
    located.hasVariant ||
    located.members !== countMembers(value) ||
    (located.params > 1 && located.params !== countMembers(value.params)) ||
    (located.result > 1 && located.result !== countMembers(value.result))
  );
}

/**
 * Whether an object anywhere in a request or a response has a member twice. Requests and responses are what the gateway
 * decides by: a policy or a rule must see what the receiver sees. Notifications, which agents stream, are not walked.
 */
function hasRepeatedMember({ kind, raw }: Frame, value: JsonObject): boolean {
  return (kind === "request" || kind === "response") && countMembersIn(raw) !== countMembersWithin(value);
}

function countMembersWithin(value: unknown): number {
  if (typeof value !== "object" || value === null) return 0;
  let count = 0;
  if (Array.isArray(value)) for (const element of value) count += countMembersWithin(element);
  else for (const member of Object.values(value)) count += 1 + countMembersWithin(member);
  return count;
}

/** Counts without a list of the names: every message of an agent passes here. */
function countMembers(body: unknown): number {
  let count = 0;
  for (const _ in recordOf(body)) count += 1;
  return count;
}

function noSpans(): Spans {
  return {
    id: undefined,
    sessionId: undefined,
    requestId: undefined,
    cwd: undefined,
    path: undefined,
    additionalDirectories: undefined,
    surplus: undefined,
  };
}

function locate(raw: string): Located {
  let id: Span | undefined;
  let params: Spans | undefined;
  let result: Spans | undefined;
  let hasMethod = false;
  let hasVariant = false;
  let members = 0;
  let paramsMembers = 0;
  let resultMembers = 0;
  const outcomes: Located["outcomes"] = {};
  eachMember(raw, skipSpace(raw, 0), (key, start) => {
    members += 1;
    switch (key) {
      case "id": {
        const end = skipValue(raw, start, MAX_DEPTH);
        id = { start, end };
        return end;
      }
      case "params":
      case "result": {
        const inner = noSpans();
        let count = 0;
        const end = isObjectAt(raw, start)
          ? eachMember(raw, start, (name, at) => {
              count += 1;
              const valueEnd = skipValue(raw, at, MAX_DEPTH);
              if (IN_PARAMS.has(name)) inner[name as keyof Spans] = { start: at, end: valueEnd };
              else if (name.length === SESSION_ID_CHARS && SESSION_ID_VARIANT.test(name)) hasVariant = true;
              return valueEnd;
            })
          : skipValue(raw, start, MAX_DEPTH);
        if (key === "params") {
          params = inner;
          paramsMembers = count;
        } else {
          result = inner;
          resultMembers = count;
          outcomes.result = { start, end };
        }
        return end;
      }
      case "method":
        hasMethod = isStringAt(raw, start);
        return skipValue(raw, start, MAX_DEPTH);
      case "jsonrpc":
        return skipValue(raw, start, MAX_DEPTH);
      case "error": {
        const end = skipValue(raw, start, MAX_DEPTH);
        outcomes.error = { start, end };
        return end;
      }
      default:
        if (MEMBER_VARIANT.test(key)) hasVariant = true;
        return skipValue(raw, start, MAX_DEPTH);
    }
  });
  const spans = (hasMethod ? params : undefined) ?? noSpans();
  spans.id = id;
  if (!hasMethod) spans.sessionId = result?.sessionId;
  return { spans, hasVariant, members, params: paramsMembers, result: resultMembers, outcomes };
}

const SESSION_ID_CHARS = "sessionId".length;
