import { MetaKey } from "./extensions.ts";
import {
  eachElement,
  eachMember,
  isArrayAt,
  isObjectAt,
  type Span,
  skipSpace,
  skipValue,
} from "./json-text.ts";

/**
 * What of a JSON text may be shown, said by naming it: what is not named may hold anything and is left out. Where
 * nothing is left out the text stays as it was, byte for byte.
 */
export type Allowed =
  /** As it is. */
  | "whole"
  /** As it is, but for what is called `_meta`. */
  | "open"
  /** A text, a number, true or false; nothing that has parts. */
  | "scalar"
  /** This in its place, where a value must be there for the sake of form. */
  | { readonly blank: string }
  | { readonly each: Allowed }
  | Members;

/** `mark` is the member an object gets that has lost something. */
type Members = { readonly members: Readonly<Record<string, Allowed>>; readonly mark: string };

const IN_META = `"_meta":{"${MetaKey.redacted}":true}`;

export function members(allowed: Readonly<Record<string, Allowed>>, mark = IN_META): Members {
  return { members: allowed, mark };
}

export function scalars(...names: string[]): Record<string, Allowed> {
  return Object.fromEntries(names.map((name) => [name, "scalar"]));
}

export function each(allowed: Allowed): Allowed {
  return { each: allowed };
}

export function blank(text: string): Allowed {
  return { blank: text };
}

/** The text with nothing in it but what is allowed. It has been through JSON.parse. */
export function shown(raw: string, allowed: Allowed): string {
  const start = skipSpace(raw, 0);
  const end = skipValue(raw, start);
  const text = valueAt(raw, { start, end }, allowed, 0) ?? "null";
  return text === raw.slice(start, end) ? raw : text;
}

/** Undefined: nothing of it. What is null says nothing and may always be. */
function valueAt(raw: string, span: Span, allowed: Allowed, depth: number): string | undefined {
  const { start, end } = span;
  const isObject = isObjectAt(raw, start);
  const isArray = isArrayAt(raw, start);
  if (allowed === "whole" || raw.startsWith("null", start)) return raw.slice(start, end);
  if (allowed === "scalar") return isObject || isArray ? undefined : raw.slice(start, end);
  if (allowed === "open") {
    if (depth > OPEN_DEPTH) return undefined;
    if (isArray) return elements(raw, span, allowed, depth);
    return isObject ? object(raw, span, IN_META, exceptMeta, depth) : raw.slice(start, end);
  }
  if ("blank" in allowed) return allowed.blank;
  if ("each" in allowed) return isArray ? elements(raw, span, allowed.each, depth) : undefined;
  if (!isObject) return `{${allowed.mark}}`;
  const rule = (key: string) => (Object.hasOwn(allowed.members, key) ? allowed.members[key] : undefined);
  return object(raw, span, allowed.mark, rule, depth);
}

/** What nobody has described goes no deeper than this. */
const OPEN_DEPTH = 20;

type Rule = (key: string) => Allowed | undefined;

const exceptMeta: Rule = (key) => (key === "_meta" ? undefined : "open");

/** Of a key that is there twice the last counts, as it does for whoever reads the text. */
function object(raw: string, { start, end }: Span, mark: string, ruleOf: Rule, depth: number): string {
  const kept = new Map<string, string>();
  let isSame = true;
  let hasLost = false;
  eachMember(raw, start, (key, at) => {
    const span = { start: at, end: skipValue(raw, at) };
    const rule = ruleOf(key);
    const text = rule && valueAt(raw, span, rule, depth + 1);
    const isChanged = text !== raw.slice(span.start, span.end);
    const isBlanked = isChanged && typeof rule === "object" && "blank" in rule;
    const isRepeated = kept.delete(key);
    if (text === undefined || isBlanked || isRepeated) hasLost = true;
    if (isChanged || isRepeated) isSame = false;
    if (text !== undefined) kept.set(key, text);
    return span.end;
  });
  if (isSame) return raw.slice(start, end);
  const left = [...kept].map(([key, text]) => `${JSON.stringify(key)}:${text}`);
  return `{${[...left, ...(hasLost && mark !== "" ? [mark] : [])].join(",")}}`;
}

function elements(raw: string, { start, end }: Span, allowed: Allowed, depth: number): string {
  const kept: string[] = [];
  let isSame = true;
  eachElement(raw, start, (at) => {
    const span = { start: at, end: skipValue(raw, at) };
    const text = valueAt(raw, span, allowed, depth + 1);
    if (text !== raw.slice(span.start, span.end)) isSame = false;
    if (text !== undefined) kept.push(text);
    return span.end;
  });
  return isSame ? raw.slice(start, end) : `[${kept.join(",")}]`;
}
