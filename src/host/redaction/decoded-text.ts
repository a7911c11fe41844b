/** A text with an encoding undone, that knows where each of its characters comes from. */
export type DecodedText = {
  readonly text: string;
  /** The text before decoding; undefined for the original. */
  readonly source?: DecodedText;
  readonly decoding?: Decoding;
  /** Position in the source of an encoded character that the end of the text cuts. */
  readonly cutAt?: number | undefined;
};

type Decoding = {
  /** The character that begins an encoded one. */
  readonly sign: string;
  /** Reads the encoded character at a position. */
  read(text: string, at: number): Encoded;
};

/** The length of an encoded character and what it stands for; or "cut", if its end is missing; or undefined, if it is none. */
type Encoded = { length: number; char: string } | "cut" | undefined;

/** The escapes of JSON strings. */
const JSON_ESCAPES: Decoding = {
  sign: "\\",
  read(text, at) {
    const letter = text[at + 1];
    if (letter === undefined) return "cut";
    if (letter === "u") return readHex(text, at + 2, 4, 2);
    const char = SHORT_ESCAPES[letter];
    return char === undefined ? undefined : { length: 2, char };
  },
};

const SHORT_ESCAPES: Readonly<Record<string, string>> = {
  ...{ '"': '"', "\\": "\\", "/": "/", b: "\b", f: "\f", n: "\n", r: "\r", t: "\t" },
};

/** A byte above 127 becomes the character of the same number. */
const PERCENT: Decoding = { sign: "%", read: (text, at) => readHex(text, at + 1, 2, 1) };

/** Tools break base64 into lines. */
const LINE_BREAKS: Decoding = { sign: "\n", read: () => ({ length: 1, char: "" }) };

const DEPTH_MAX = 2;
/** Shorter lines are not those of a text that a tool has broken into lines of equal length. */
const BROKEN_LINE_CHARS = 60;

/** Undoes the escapes of a JSON string's content, quotes excluded. */
export function jsonContent(content: string): DecodedText {
  const original = { text: content };
  return content.includes("\\") ? decode(original, JSON_ESCAPES, false) : original;
}

/**
 * The text, and all that decoding makes of it: text can be JSON within JSON, URLs within JSON, or the reverse. `isOpen`
 * says that the text may go on, so that a cut at its end is left out instead of being taken literally.
 */
export function decodings(original: DecodedText, isOpen = false): DecodedText[] {
  const all = [original];
  let previous = [original];
  for (let depth = 0; depth < DEPTH_MAX; depth++) {
    const next: DecodedText[] = [];
    for (const view of previous) {
      for (const decoding of [JSON_ESCAPES, PERCENT])
        if (view.text.includes(decoding.sign)) {
          const decoded = decode(view, decoding, isOpen);
          if (decoded.text !== view.text) next.push(decoded);
        }
    }
    all.push(...next);
    previous = next;
  }
  const isBroken = isOpen ? (text: string) => text.includes("\n") : hasBrokenLines;
  const broken = all.filter(({ text }) => isBroken(text));
  return all.concat(broken.map((view) => decode(view, LINE_BREAKS, isOpen)));
}

/** The ranges of the original that ranges of a decoded text stand for. */
export function originsOf<Range extends { start: number; end: number }>(
  view: DecodedText,
  ranges: readonly Range[],
): readonly Range[] {
  if (!view.source || !view.decoding || ranges.length === 0) return ranges;
  // Few texts have a hit, so only for these the origins are worked out.
  const origins = new Origins();
  decode(view.source, view.decoding, view.cutAt !== undefined, origins);
  const moved = ranges.map((range) => ({
    ...range,
    start: origins.startOf(range.start),
    end: origins.endOf(range.end - 1),
  }));
  return originsOf(view.source, moved);
}

/** The position in the original from which the end of the text is undecided: a cut character's, or the end. */
export function certainUpTo(view: DecodedText, length: number): number {
  let at = length;
  for (let { cutAt, source }: DecodedText = view; source; { cutAt, source } = source)
    if (cutAt !== undefined)
      at = Math.min(at, originsOf(source, [{ start: cutAt, end: cutAt + 1 }])[0]?.start ?? at);
  return at;
}

function decode(source: DecodedText, decoding: Decoding, isOpen: boolean, origins?: Origins): DecodedText {
  const { text } = source;
  const { sign, read } = decoding;
  const parts: string[] = [];
  let length = 0;
  let copied = 0;
  const copy = (end: number) => {
    origins?.add(length, copied, 1);
    parts.push(text.slice(copied, end));
    length += end - copied;
  };
  for (let at = text.indexOf(sign); at !== -1; ) {
    const encoded = read(text, at);
    if (encoded === "cut" && isOpen) {
      copy(at);
      return { text: parts.join(""), source, decoding, cutAt: at };
    }
    if (encoded === undefined || encoded === "cut") {
      at = text.indexOf(sign, at + 1);
      continue;
    }
    if (at > copied) copy(at);
    if (encoded.char !== "") origins?.add(length, at, encoded.length);
    parts.push(encoded.char);
    length += encoded.char.length;
    copied = at + encoded.length;
    at = text.indexOf(sign, copied);
  }
  copy(text.length);
  return { text: parts.join(""), source, decoding };
}

/** Runs of characters by where they come from. */
class Origins {
  readonly #starts: number[] = [];
  readonly #sources: number[] = [];
  readonly #lengths: number[] = [];

  /** From position `start` on, the text is a copy of the source from `source` on, or one character that took `length`. */
  add(start: number, source: number, length: number): void {
    this.#starts.push(start);
    this.#sources.push(source);
    this.#lengths.push(length);
  }

  startOf(at: number): number {
    const run = this.#runOf(at);
    return (this.#sources[run] as number) + at - (this.#starts[run] as number);
  }

  /** Where the character at a position ends in the source. */
  endOf(at: number): number {
    return this.startOf(at) + (this.#lengths[this.#runOf(at)] as number);
  }

  /** The last run that begins at or before the position. */
  #runOf(at: number): number {
    let low = 0;
    let high = this.#starts.length - 1;
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if ((this.#starts[middle] as number) <= at) low = middle;
      else high = middle - 1;
    }
    return low;
  }
}

function readHex(text: string, at: number, digits: number, prefix: number): Encoded {
  const hex = text.slice(at, at + digits);
  if (!/^[0-9a-fA-F]*$/.test(hex)) return undefined;
  if (hex.length < digits) return "cut";
  return { length: prefix + digits, char: String.fromCharCode(Number.parseInt(hex, 16)) };
}

function hasBrokenLines(text: string): boolean {
  for (let at = text.indexOf("\n"), start = 0; at !== -1; start = at + 1, at = text.indexOf("\n", start)) {
    if (at - start < BROKEN_LINE_CHARS) continue;
    const space = text.indexOf(" ", start);
    if (space === -1 || space > at) return true;
  }
  return false;
}
