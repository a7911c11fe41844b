import { skipValue } from "../../protocol/json-text.ts";
import { certainUpTo, type DecodedText, decodings, jsonContent, originsOf } from "./decoded-text.ts";
import { type Hit, PatternMatcher } from "./pattern-matcher.ts";
import { formsOf, SECRET_CHARS_MIN } from "./secret-forms.ts";

/** Each character of a secret takes at most this many in a text: `\u0041`. */
const ENCODED_CHARS_MAX = 6;
/** A process may still have the earlier values of a name, but a name whose value changes hourly must not fill memory. */
const VALUES_PER_NAME = 16;
/** A longer value is a document rather than a secret. */
const SECRET_CHARS_MAX = 16_384;
const SECRETS_MAX = 1000;
const NAME_CHARS_MAX = 64;
/** A shorter part of a secret tells too little, and occurs by chance. */
const PART_CHARS_MIN = 4;

/** A longer beginning of a secret is hardly a coincidence. */
const LONG_BEGINNING_CHARS = 12;
/** The name in the mark of a beginning. */
const BEGINNING = "beginning of a secret";

const MARK = /\[redacted:[\w.-]+\]/g;

/** Replaces secrets in texts, whichever way they are encoded there. */
export class Redactor {
  readonly #parent: Redactor | undefined;
  /** The values of each name, the latest last. */
  readonly #values = new Map<string, string[]>();
  #count = 0;
  #version = 0;
  #matcher: { version: number; matcher: PatternMatcher | null } | undefined;

  /** `parent` knows secrets that count here too, for instance those of the whole host. */
  constructor(parent?: Redactor) {
    this.#parent = parent;
  }

  learn(name: string, value: string): void {
    const secret = value.trim();
    if (secret.length < SECRET_CHARS_MIN || secret.length > SECRET_CHARS_MAX) return;
    const label = name.replace(/[^\w.-]/g, "_").slice(0, NAME_CHARS_MAX);
    const known = this.#values.get(label) ?? [];
    if (known.includes(secret) || this.#count >= SECRETS_MAX) return;
    this.#values.set(label, [...known, secret].slice(-VALUES_PER_NAME));
    this.#count += 1;
    this.#version += 1;
  }

  /** How far a secret can reach across a cut. */
  get reach(): number {
    return ENCODED_CHARS_MAX * (this.#current()?.longest ?? 0);
  }

  /** The marks in a text that may stand for secrets: a mark with any other name is plain text. */
  marksIn(text: string): string[] {
    const marks = new Set(Array.from(text.matchAll(MARK), ([mark]) => mark));
    return [...marks].filter((mark) => this.#knows(mark.slice("[redacted:".length, -1)));
  }

  redact(text: string): string {
    const matcher = this.#current();
    if (!matcher || !hasHit(matcher, text)) return text;
    return replaced(text, hitsIn(matcher, { text }));
  }

  /** Redacts every string of a JSON text, whose value the caller may know. The rest of the text stays as it is. */
  redactJson(text: string, value?: unknown): string {
    const matcher = this.#current();
    if (!matcher || !hasHitInJson(matcher, text, value)) return text;
    return withStrings(text, (content) => replaced(content, hitsIn(matcher, jsonContent(content))));
  }

  /**
   * Redacts every string of a JSON text whose strings may be cut at their end: a later message repeats them with more. A
   * string that ends in a long beginning of a secret loses that beginning too, because it is most of the secret.
   */
  redactSnapshot(text: string): string {
    const matcher = this.#current();
    if (!matcher) return text;
    return withStrings(text, (content) => {
      if (content.length < SECRET_CHARS_MIN) return content;
      const decoded = jsonContent(content);
      const beginning = originsOf(decoded, this.#longBeginning(decoded.text));
      return replaced(content, joined([...hitsIn(matcher, decoded), ...beginning]));
    });
  }

  /** The long beginning of a secret at the end of a text. The rest of a long text is not looked at. */
  #longBeginning(text: string): Hit[] {
    const from = Math.max(0, text.length - this.reach);
    const { hits, openFrom } = this.inspect(text.slice(from));
    return longBeginning(hits, from + openFrom, text.length, from);
  }

  /** The secrets in a text that may go on, and the position from which its end may become one. */
  inspect(text: string): { hits: Hit[]; openFrom: number } {
    const matcher = this.#current();
    if (!matcher) return { hits: [], openFrom: text.length };
    const views = decodings({ text }, true);
    const hits = joined(views.flatMap((view) => originalHits(matcher, view)));
    let openFrom = text.length;
    for (const view of views) {
      openFrom = Math.min(openFrom, certainUpTo(view, text.length));
      const open = matcher.openEnd(view.text);
      const [range] = originsOf(view, [{ start: view.text.length - open, end: view.text.length }]);
      if (open > 0 && range) openFrom = Math.min(openFrom, range.start);
    }
    return { hits, openFrom };
  }

  /**
   * Redacts a part of an output, with the parts of secrets at its ends: `isCut` says that the beginning is missing, and
   * `goesOn` that more may follow, so that the end can be left out until it is complete.
   */
  redactPart(text: string, { isCut, goesOn }: { isCut: boolean; goesOn: boolean }): string {
    const matcher = this.#current();
    if (!matcher) return text;
    const head = isCut ? matcher.openStart(text, PART_CHARS_MIN) : undefined;
    const safe = this.redact(head ? `[redacted:${head.name}]${text.slice(head.end)}` : text);
    const open = goesOn ? matcher.openEnd(safe) : 0;
    return open < SECRET_CHARS_MIN ? safe : safe.slice(0, -open);
  }

  #knows(name: string): boolean {
    const parent = this.#parent;
    return this.#values.has(name) || (parent ? parent.#knows(name) : false);
  }

  /** The matcher of all secrets; null if there is none. A redactor that knows none itself shares its parent's. */
  #current(): PatternMatcher | null {
    const parent = this.#parent;
    if (parent && this.#version === 0) return parent.#current();
    const version = this.#version + (parent ? parent.#version : 0);
    if (this.#matcher?.version !== version) {
      const names = new Map<string, string>();
      for (const [name, values] of [...(parent ? parent.#values : []), ...this.#values])
        for (const value of values) for (const form of formsOf(value)) names.set(form, name);
      this.#matcher = { version, matcher: names.size === 0 ? null : new PatternMatcher(names) };
    }
    return this.#matcher.matcher;
  }
}

/** The end of a text from `openFrom` on and after all hits, if it is a long beginning of a secret. */
export function longBeginning(hits: readonly Hit[], openFrom: number, end: number, offset = 0): Hit[] {
  const start = hits.reduce((after, hit) => Math.max(after, offset + hit.end), openFrom);
  return end - start >= LONG_BEGINNING_CHARS ? [{ start, end, name: BEGINNING }] : [];
}

/** The JSON text with the content of each string, quotes excluded, as `change` makes it. */
function withStrings(text: string, change: (content: string) => string): string {
  let out = "";
  let copied = 0;
  for (let at = text.indexOf('"'); at !== -1; ) {
    const end = skipValue(text, at);
    const content = text.slice(at + 1, end - 1);
    const changed = change(content);
    if (changed !== content) {
      out += text.slice(copied, at + 1) + changed;
      copied = end - 1;
    }
    at = text.indexOf('"', end);
  }
  return out + text.slice(copied);
}

function hasHit(matcher: PatternMatcher, text: string): boolean {
  return matcher.hasHit(text) || decodings({ text }).some((view) => view.source && matcher.hasHit(view.text));
}

/** Whether a string of a JSON text has a hit. Most lines have none, so for them this is all the work. */
function hasHitInJson(matcher: PatternMatcher, text: string, value: unknown): boolean {
  // Without escapes, every string of the value is a part of the text.
  if (!text.includes("\\")) return hasHit(matcher, text);
  const open: unknown[] = [value ?? JSON.parse(text)];
  while (open.length > 0) {
    const next = open.pop();
    if (typeof next === "string") {
      if (next.length >= SECRET_CHARS_MIN && hasHit(matcher, next)) return true;
    } else if (Array.isArray(next)) for (const element of next) open.push(element);
    else if (typeof next === "object" && next !== null)
      for (const [key, member] of Object.entries(next)) open.push(key, member);
  }
  return false;
}

function hitsIn(matcher: PatternMatcher, base: DecodedText): Hit[] {
  return joined(decodings(base).flatMap((view) => originalHits(matcher, view)));
}

function originalHits(matcher: PatternMatcher, view: DecodedText): readonly Hit[] {
  return originsOf(view, matcher.hits(view.text));
}

/** Hits of several decodings in order; those that overlap are joined under the name of the first. */
function joined(hits: readonly Hit[]): Hit[] {
  const all: Hit[] = [];
  for (const hit of hits.toSorted((a, b) => a.start - b.start || b.end - a.end)) {
    const last = all.at(-1);
    if (last === undefined || last.end <= hit.start) all.push({ ...hit });
    else last.end = Math.max(last.end, hit.end);
  }
  return all;
}

function replaced(text: string, hits: readonly Hit[]): string {
  let out = "";
  let copied = 0;
  for (const { start, end, name } of hits) {
    out += `${text.slice(copied, start)}[redacted:${name}]`;
    copied = end;
  }
  return out + text.slice(copied);
}
