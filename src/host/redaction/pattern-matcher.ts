/** A part of a text that is a secret, and the name of that secret. */
export type Hit = { start: number; end: number; name: string };

/** The window that is compared at once. A longer window skips more text, but no pattern may be shorter. */
const WINDOW_CHARS_MAX = 32;
const TABLE_SIZE = 1 << 14;

/**
 * Finds many patterns in one pass (Wu and Manber's algorithm): the last two characters of a window tell how far the
 * window can move, so most characters of a text without a hit are never looked at.
 */
export class PatternMatcher {
  /** Length of the longest pattern. */
  readonly longest: number;
  readonly #names: ReadonlyMap<string, string>;
  readonly #window: number;
  readonly #shifts = new Uint8Array(TABLE_SIZE);
  /** Patterns by the last two characters of their first window, longest first. */
  readonly #candidates = new Map<number, string[]>();
  /** Patterns by their first character. */
  readonly #byFirst = new Map<number, string[]>();

  /** Patterns with their names. Each pattern has at least two characters. */
  constructor(names: ReadonlyMap<string, string>) {
    this.#names = names;
    const patterns = [...names.keys()].sort((a, b) => b.length - a.length);
    this.longest = patterns[0]?.length ?? 0;
    this.#window = Math.min(WINDOW_CHARS_MAX, patterns.at(-1)?.length ?? WINDOW_CHARS_MAX);
    this.#shifts.fill(this.#window - 1);
    for (const pattern of patterns) this.#enter(pattern);
  }

  /** All hits in the order of their starts. Hits that overlap are joined under the name of the first. */
  hits(text: string): Hit[] {
    const found: Hit[] = [];
    this.#scan(text, (start, pattern) => {
      const end = start + pattern.length;
      const last = found.at(-1);
      if (last === undefined || last.end <= start)
        found.push({ start, end, name: this.#names.get(pattern) ?? "" });
      else if (end > last.end) last.end = end;
      return false;
    });
    return found;
  }

  hasHit(text: string): boolean {
    return this.#scan(text, () => true);
  }

  /** Length of the longest end of the text that a continuation could turn into a hit. */
  openEnd(text: string): number {
    for (let at = Math.max(0, text.length - this.longest + 1); at < text.length; at++) {
      const patterns = this.#byFirst.get(text.charCodeAt(at));
      if (patterns === undefined) continue;
      const length = text.length - at;
      for (const pattern of patterns) {
        if (pattern.length <= length) break;
        if (length > 1 && pattern.charCodeAt(1) !== text.charCodeAt(at + 1)) continue;
        if (pattern.startsWith(text.slice(at))) return length;
      }
    }
    return 0;
  }

  /** The longest beginning of the text that is the end of a pattern, if it has at least `least` characters. */
  openStart(text: string, least: number): Hit | undefined {
    let found: Hit | undefined;
    const head = text.slice(0, least);
    if (head.length < least) return undefined;
    for (const [pattern, name] of this.#names) {
      for (let at = pattern.indexOf(head, 1); at !== -1; at = pattern.indexOf(head, at + 1)) {
        const end = pattern.length - at;
        if (end > (found?.end ?? 0) && text.startsWith(pattern.slice(at))) found = { start: 0, end, name };
      }
    }
    return found;
  }

  #enter(pattern: string): void {
    const last = this.#window - 1;
    for (let at = 1; at <= last; at++) {
      const block = blockAt(pattern, at);
      this.#shifts[block] = Math.min(this.#shifts[block] ?? 0, last - at);
    }
    append(this.#candidates, blockAt(pattern, last), pattern);
    append(this.#byFirst, pattern.charCodeAt(0), pattern);
  }

  /** Visits the longest pattern at each start, until a visit returns true. */
  #scan(text: string, visit: (start: number, pattern: string) => boolean): boolean {
    const last = this.#window - 1;
    for (let at = last; at < text.length; ) {
      const block = blockAt(text, at);
      const shift = this.#shifts[block] as number;
      if (shift > 0) {
        at += shift;
        continue;
      }
      const start = at - last;
      const pattern = this.#candidates.get(block)?.find((candidate) => text.startsWith(candidate, start));
      if (pattern !== undefined && visit(start, pattern)) return true;
      at += 1;
    }
    return false;
  }
}

/** Two ASCII characters have an entry of their own; other characters share entries, which costs time only. */
function blockAt(text: string, at: number): number {
  return ((text.charCodeAt(at - 1) << 7) ^ text.charCodeAt(at)) & (TABLE_SIZE - 1);
}

function append(lists: Map<number, string[]>, key: number, pattern: string): void {
  const list = lists.get(key);
  if (list) list.push(pattern);
  else lists.set(key, [pattern]);
}
