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
 * The parts of a JSON text that a reader may see, named one by one: a part without a name may hold anything, so it is
 * left out. A text of which nothing is left out stays as it is, byte for byte.
 */
export type Allowed =
  /** The whole value. */
  | "whole"
  /** The whole value except members called `_meta`, at any depth. */
  | "open"
  /** A string, a number or a boolean; not an object or a list. */
  | "scalar"
  /** This text in place of the value, where the form demands a value. */
  | { readonly blank: string }
  /** A list, of whose elements this much. */
  | { readonly each: Allowed }
  /** An object of the kind that its member `tag` names, or else of another kind. */
  | { readonly tag: string; readonly kinds: Readonly<Record<string, Allowed>>; readonly otherwise: Allowed }
  /** As much as the rule says that `choose` finds for this value. */
  | { readonly choose: (value: unknown) => Allowed }
  | Members;

/** The named members of an object. An object that loses members gets the member `mark`. */
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

export function byTag(tag: string, kinds: Readonly<Record<string, Allowed>>, otherwise: Allowed): Allowed {
  return { tag, kinds, otherwise };
}

export function blank(text: string): Allowed {
  return { blank: text };
}

export function byValue(choose: (value: unknown) => Allowed): Allowed {
  return { choose };
}

/** The text reduced to its allowed parts. The text must be valid JSON. */
export function applyAllowList(raw: string, allowed: Allowed): string {
  const start = skipSpace(raw, 0);
  const end = skipValue(raw, start);
  const text = valueAt(raw, { start, end }, allowed, 0) ?? "null";
  return text === raw.slice(start, end) ? raw : text;
}

/** Undefined: nothing of the value is allowed. Null says nothing, so it is always allowed. */
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
  if ("choose" in allowed) return valueAt(raw, span, chosen(raw, span, allowed), depth);
  if ("blank" in allowed) return allowed.blank;
  if ("each" in allowed) return isArray ? elements(raw, span, allowed.each, depth) : undefined;
  if ("tag" in allowed) {
    const kind = isObject ? memberText(raw, start, allowed.tag) : undefined;
    const isKnown = kind !== undefined && Object.hasOwn(allowed.kinds, kind);
    return valueAt(raw, span, (isKnown && allowed.kinds[kind]) || allowed.otherwise, depth);
  }
  if (!isObject) return `{${allowed.mark}}`;
  const rule = (key: string) => (Object.hasOwn(allowed.members, key) ? allowed.members[key] : undefined);
  return object(raw, span, allowed.mark, rule, depth);
}

/** The rule for this very value. */
function chosen(raw: string, { start, end }: Span, rule: Allowed): Allowed {
  if (typeof rule === "string" || !("choose" in rule)) return rule;
  return chosen(raw, { start, end }, rule.choose(JSON.parse(raw.slice(start, end))));
}

/** The text of a member; of several with one name the last, as it is for every reader of the text. */
function memberText(raw: string, start: number, name: string): string | undefined {
  let found: string | undefined;
  eachMember(raw, start, (key, at) => {
    const end = skipValue(raw, at);
    if (key === name) found = raw[at] === '"' ? (JSON.parse(raw.slice(at, end)) as string) : undefined;
    return end;
  });
  return found;
}

/** An `open` value is shown down to this depth. */
const OPEN_DEPTH = 20;

type Rule = (key: string) => Allowed | undefined;

const exceptMeta: Rule = (key) => (key === "_meta" ? undefined : "open");

/** Of duplicate keys the last one counts, as it does for every reader of the text. */
function object(raw: string, { start, end }: Span, mark: string, ruleOf: Rule, depth: number): string {
  const kept = new Map<string, string>();
  let isSame = true;
  let hasLost = false;
  eachMember(raw, start, (key, at) => {
    const span = { start: at, end: skipValue(raw, at) };
    const named = ruleOf(key);
    const rule = named && chosen(raw, span, named);
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
