/**
 * Positions in a JSON text, for code that replaces parts of a text and must not change the rest. These functions assume
 * valid JSON: every caller has parsed the text before.
 */

/**
 * Deepest nesting of a text from outside. `JSON.parse` takes any depth, but `JSON.stringify` and every recursive walk
 * overflow the stack at a few thousand levels. No agent or editor comes near this number.
 */
export const MAX_DEPTH = 500;

/**
 * Most values of one text from outside. A parsed value takes up to a hundred bytes of memory for two characters of
 * text, and an isolate has 128 MB.
 */
export const MAX_VALUES = 500_000;

/** A value is nested too deeply. */
export class TooDeep extends Error {}

/**
 * Whether the parsed text would take too much memory. The text need not be valid JSON: this is asked before it is
 * parsed. Long strings, the common content of a long text, cost next to nothing.
 */
export function hasTooManyValues(raw: string, maxValues = MAX_VALUES): boolean {
  if (raw.length <= maxValues) return false;
  let values = 0;
  for (let at = 0; at < raw.length; at += 1) {
    const c = raw.charCodeAt(at);
    if (c === QUOTE) {
      at = closingQuote(raw, at);
      if (at === -1) return false;
    } else if (c === COMMA || c === OPEN_BRACE || c === OPEN_BRACKET) {
      values += 1;
      if (values > maxValues) return true;
    }
  }
  return false;
}

/** Whether the text of one value is nested too deeply, or has too many values. The text need not be valid JSON. */
export function isTooComplex(raw: string): boolean {
  if (hasTooManyValues(raw)) return true;
  let depth = 0;
  for (let at = 0; at < raw.length; at += 1) {
    const c = raw.charCodeAt(at);
    if (c === QUOTE) {
      at = closingQuote(raw, at);
      if (at === -1) return false;
    } else if (c === OPEN_BRACE || c === OPEN_BRACKET) {
      depth += 1;
      if (depth > MAX_DEPTH) return true;
    } else if (c === CLOSE_BRACE || c === CLOSE_BRACKET) depth -= 1;
  }
  return false;
}

/** How many members the objects in a valid text have together, repeated ones included. */
export function countMembersIn(raw: string): number {
  let members = 0;
  for (let at = 0; at < raw.length; at += 1) {
    const c = raw.charCodeAt(at);
    if (c === QUOTE) at = closingQuote(raw, at);
    else if (c === COLON) members += 1;
  }
  return members;
}

/** A range of the text, from `start` up to but not including `end`. */
export type Span = { readonly start: number; readonly end: number };

export function isObjectAt(raw: string, at: number): boolean {
  return raw.charCodeAt(at) === OPEN_BRACE;
}

export function isArrayAt(raw: string, at: number): boolean {
  return raw.charCodeAt(at) === OPEN_BRACKET;
}

export function isStringAt(raw: string, at: number): boolean {
  return raw.charCodeAt(at) === QUOTE;
}

/**
 * Walks the members of the object that starts at `start`. `visit` gets each key and the start of its value, and returns
 * the end of that value. Returns the position after the closing brace.
 */
export function eachMember(
  raw: string,
  start: number,
  visit: (key: string, valueStart: number) => number,
): number {
  let at = skipSpace(raw, start + 1);
  if (raw.charCodeAt(at) === CLOSE_BRACE) return at + 1;
  for (;;) {
    const keyEnd = skipString(raw, at);
    const key = unquote(raw, at, keyEnd);
    const colon = skipSpace(raw, keyEnd);
    const valueEnd = visit(key, skipSpace(raw, colon + 1));
    const next = skipSpace(raw, valueEnd);
    if (raw.charCodeAt(next) !== COMMA) return next + 1;
    at = skipSpace(raw, next + 1);
  }
}

/** Walks the elements of the array that starts at `start`, as `eachMember` walks members. */
export function eachElement(raw: string, start: number, visit: (valueStart: number) => number): number {
  let at = skipSpace(raw, start + 1);
  if (raw.charCodeAt(at) === CLOSE_BRACKET) return at + 1;
  for (;;) {
    const next = skipSpace(raw, visit(at));
    if (raw.charCodeAt(next) !== COMMA) return next + 1;
    at = skipSpace(raw, next + 1);
  }
}

function unquote(raw: string, start: number, end: number): string {
  const text = raw.slice(start + 1, end - 1);
  return text.includes("\\") ? (JSON.parse(raw.slice(start, end)) as string) : text;
}

/** The position of the next character that is not white space. */
export function skipSpace(raw: string, start: number): number {
  let at = start;
  for (;;) {
    const c = raw.charCodeAt(at);
    if (c !== 0x20 && c !== 0x0a && c !== 0x0d && c !== 0x09) return at;
    at += 1;
  }
}

function skipString(raw: string, start: number): number {
  return closingQuote(raw, start) + 1;
}

/** The position of the quote that ends the string; -1 if there is none. */
function closingQuote(raw: string, start: number): number {
  let at = start;
  for (;;) {
    at = raw.indexOf('"', at + 1);
    if (at === -1) return -1;
    let slashes = 0;
    while (raw.charCodeAt(at - 1 - slashes) === BACKSLASH) slashes += 1;
    if (slashes % 2 === 0) return at;
  }
}

/** The end of the value that starts at `start`. Throws `TooDeep` for a value that is nested deeper than `maxDepth`. */
export function skipValue(raw: string, start: number, maxDepth = Number.POSITIVE_INFINITY): number {
  const first = raw.charCodeAt(start);
  if (first === QUOTE) return skipString(raw, start);
  if (first !== OPEN_BRACE && first !== OPEN_BRACKET) return skipScalar(raw, start);
  let depth = 0;
  let at = start;
  for (;;) {
    const c = raw.charCodeAt(at);
    if (c === QUOTE) {
      at = skipString(raw, at);
      continue;
    }
    at += 1;
    if (c === OPEN_BRACE || c === OPEN_BRACKET) {
      depth += 1;
      if (depth > maxDepth) throw new TooDeep();
    } else if (c === CLOSE_BRACE || c === CLOSE_BRACKET) {
      depth -= 1;
      if (depth === 0) return at;
    }
  }
}

function skipScalar(raw: string, start: number): number {
  let at = start;
  for (;;) {
    const c = raw.charCodeAt(at);
    if (c === COMMA || c === CLOSE_BRACE || c === CLOSE_BRACKET || c <= 0x20 || Number.isNaN(c)) return at;
    at += 1;
  }
}

const QUOTE = 0x22;
const BACKSLASH = 0x5c;
const COMMA = 0x2c;
const COLON = 0x3a;
const OPEN_BRACE = 0x7b;
const CLOSE_BRACE = 0x7d;
const OPEN_BRACKET = 0x5b;
const CLOSE_BRACKET = 0x5d;
