import { CLIENT_ABILITIES } from "../../../protocol/client-abilities.ts";
import { frameOf, isFault } from "../../../protocol/frame.ts";
import { timeOf } from "../../../protocol/iso-time.ts";
import {
  eachMember,
  hasTooManyValues,
  isObjectAt,
  MAX_DEPTH,
  MAX_VALUES,
  type Span,
  skipSpace,
  skipValue,
  TooDeep,
} from "../../../protocol/json-text.ts";
import { isRecord } from "../../../protocol/json-value.ts";
import { type Context, type LogEvent, type Route, STOPS } from "./event.ts";
import { readFact } from "./fact-reader.ts";

/** An event as read from a line of NDJSON, the inverse of `envelope`. The line may be of another system. */
export type EnvelopeLine = {
  readonly line: string;
  readonly event: LogEvent;
  readonly id: string;
  readonly recordId: string;
};

/** The reason why a line is no event, in words for a person. */
export type LineFault = { readonly fault: string };

/**
 * Reads a line. An unknown kind, source or field is no fault: the line is kept as it is, and the event has the part
 * that the catalogue knows.
 */
export function readEnvelope(line: string): EnvelopeLine | LineFault {
  try {
    return read(line);
  } catch (error) {
    if (error instanceof TooDeep) return { fault: `nested deeper than ${LINE_DEPTH} levels` };
    throw error;
  }
}

/** An envelope adds a little to the frame in it, which may be as deep and as rich as a frame can be. */
const LINE_DEPTH = MAX_DEPTH + 10;
const LINE_VALUES = MAX_VALUES + 1000;

function read(line: string): EnvelopeLine | LineFault {
  if (hasTooManyValues(line, LINE_VALUES)) return { fault: `more than ${LINE_VALUES} values` };
  let value: unknown;
  try {
    value = JSON.parse(line);
  } catch (error) {
    return { fault: `not valid JSON: ${(error as Error).message}` };
  }
  if (!isRecord(value)) return { fault: "not a JSON object" };
  skipValue(line, skipSpace(line, 0), LINE_DEPTH);
  const fault = checkFields(value);
  if (fault !== undefined) return { fault };
  return {
    line,
    event: eventOf(line, value),
    id: value.eventId as string,
    recordId: value.acpxRecordId as string,
  };
}

export function isLineFault(read: EnvelopeLine | LineFault): read is LineFault {
  return "fault" in read;
}

/** The line as it stands in the log of another session. */
export function withRecordId(line: string, recordId: string): string {
  const { acpxRecordId } = locate(line);
  if (!acpxRecordId) return line;
  return line.slice(0, acpxRecordId.start) + JSON.stringify(recordId) + line.slice(acpxRecordId.end);
}

type Json = Record<string, unknown>;

function checkFields(value: Json): string | undefined {
  if (value.schema !== SCHEMA) return `schema must be "${SCHEMA}"`;
  if (!Number.isSafeInteger(value.seq) || (value.seq as number) < 1) return "seq must be a positive integer";
  for (const key of ["eventId", "acpxRecordId", "kind"]) {
    if (typeof value[key] !== "string" || value[key] === "") return `${key} must be a non-empty string`;
    if (value[key].length > ID_CHARS) return `${key} has more than ${ID_CHARS} characters`;
  }
  if (typeof value.at !== "string" || Number.isNaN(timeOf(value.at))) return "at must be a date";
  for (const key of ["acpSessionId", "agentSessionId", "turnId", "requestId", "source"]) {
    const text = value[key] ?? "";
    if (typeof text !== "string") return `${key} must be a string or null`;
    if (text.length > ID_CHARS) return `${key} has more than ${ID_CHARS} characters`;
  }
  return isRecord(value.payload) ? undefined : "payload must be a JSON object";
}

const SCHEMA = "acpx.event.v1";

/** These texts stand in columns and heads of rows, which unlike the text of an event never continue in another row. */
const ID_CHARS = 1024;

function eventOf(line: string, value: Json): LogEvent {
  const { payload, requestId } = value as { payload: Json; requestId?: string | null };
  const base = {
    seq: value.seq as number,
    at: timeOf(value.at as string),
    context: contextOf(value),
    source: (value.source as string | null | undefined) ?? "acpx",
    ...(requestId == null ? {} : { requestId }),
  };
  const kind = value.kind as string;
  if (kind !== "acp.frame") return readFact(base, kind, payload);
  const { direction, message, ...route } = payload;
  const frame = frameOf(messageText(line), message);
  if (isFault(frame) || (direction !== "in" && direction !== "out"))
    return { ...base, kind: "acp.frame.unreadable", payload, foreign: true };
  return { ...base, kind, direction, frame, route: isRoute(route) ? route : {} };
}

function contextOf(value: Json): Context {
  const text = (key: string) => (value[key] as string | null | undefined) ?? null;
  return {
    acpSessionId: text("acpSessionId"),
    agentSessionId: text("agentSessionId"),
    turnId: text("turnId"),
  };
}

/** A route may have unknown members. A known member of the wrong type would mislead the code that reads it. */
function isRoute(route: Json): route is Route {
  return ROUTE_MEMBERS.every(([key, isValid]) => route[key] === undefined || isValid(route[key]));
}

const isText = (value: unknown) => typeof value === "string";
const isAbility = (value: unknown) => CLIENT_ABILITIES.some((ability) => ability === value);

const ROUTE_CHECKS: Readonly<Record<keyof Route, (value: unknown) => boolean>> = {
  connection: isText,
  to: isText,
  except: isText,
  also: (value) => Array.isArray(value) && value.every(isText),
  id: isText,
  re: Number.isSafeInteger,
  requestId: isText,
  path: isText,
  stop: (value) => STOPS.some((stop) => stop === value),
  early: (value) => value === true,
  repeats: Number.isSafeInteger,
  having: isAbility,
  lacking: isAbility,
  plain: (value) => value === "before" || value === "after",
  announcedAt: Number.isSafeInteger,
  terminalsOf: isText,
};
const ROUTE_MEMBERS = Object.entries(ROUTE_CHECKS);

/** The text of the frame as its sender wrote it. */
function messageText(line: string): string {
  const { message } = locate(line);
  return message ? line.slice(message.start, message.end) : "";
}

function locate(line: string): { acpxRecordId?: Span; message?: Span } {
  const found: { acpxRecordId?: Span; message?: Span } = {};
  eachMember(line, skipSpace(line, 0), (key, start) => {
    if (key === "payload" && isObjectAt(line, start)) {
      delete found.message;
      return eachMember(line, start, (inner, at) => {
        const end = skipValue(line, at);
        if (inner === "message") found.message = { start: at, end };
        return end;
      });
    }
    const end = skipValue(line, start);
    if (key === "acpxRecordId") found.acpxRecordId = { start, end };
    return end;
  });
  return found;
}
