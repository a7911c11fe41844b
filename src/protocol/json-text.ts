/**
 * Positions in a JSON text, for code that replaces parts of a text and must not change the rest. These functions assume
 * valid JSON: every caller has parsed the text before.
 */

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
  let at = start;
  for (;;) {
    at = raw.indexOf('"', at + 1);
    let slashes = 0;
    while (raw.charCodeAt(at - 1 - slashes) === BACKSLASH) slashes += 1;
    if (slashes % 2 === 0) return at + 1;
  }
}

/** The end of the value that starts at `start`. */
export function skipValue(raw: string, start: number): number {
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
    if (c === OPEN_BRACE || c === OPEN_BRACKET) depth += 1;
    else if (c === CLOSE_BRACE || c === CLOSE_BRACKET) {
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
const OPEN_BRACE = 0x7b;
const CLOSE_BRACE = 0x7d;
const OPEN_BRACKET = 0x5b;
const CLOSE_BRACKET = 0x5d;
