/**
 * Text of others, for people who decide by it. Characters that cannot be seen, that reorder what is seen, or that look
 * like a plain space are replaced by their code point, as in `⟨U+202E⟩`, so that the text on the screen is the text that
 * counts. Different texts stay different: the characters of the marks themselves are marked too.
 */

/** Everything but the plain space that has no glyph, a private glyph, or a part in a mark. */
const UNSEEN = /[\p{C}\p{Z}\p{Default_Ignorable_Code_Point}\p{Bidi_Control}\p{Variation_Selector}\u2800⟨⏎⇥]/u;

/** A longer run of spaces could push the rest of a line out of sight. */
const MOST_SPACES = 40;

/** `hiddenChars` counts the characters of the text that are not shown. */
export type VisibleText = { text: string; hiddenChars: number };

type Options = {
  /** The longest result. */
  maxChars?: number;
  /** `shown`: a mark and a line break, the default. `mark`: all on one line. `plain`: lines that the gateway made. */
  newlines?: "shown" | "mark" | "plain";
};

const NEWLINES = { shown: "⏎\n", mark: "⏎", plain: "\n" } as const;

export function visibleText(
  text: string,
  { maxChars = Number.POSITIVE_INFINITY, newlines = "shown" }: Options = {},
): VisibleText {
  let shown = "";
  let at = 0;
  while (at < text.length) {
    const { length, mark } = next(text, at, NEWLINES[newlines]);
    if (shown.length + mark.length > maxChars) break;
    shown += mark;
    at += length;
  }
  return { text: shown, hiddenChars: text.length - at };
}

/** The text on one line, cut with an ellipsis. */
export function visibleLine(text: string, maxChars = Number.POSITIVE_INFINITY): string {
  const { text: shown, hiddenChars } = visibleText(text, { maxChars, newlines: "mark" });
  if (hiddenChars === 0) return shown;
  return `${visibleText(text, { maxChars: maxChars - 1, newlines: "mark" }).text}…`;
}

function next(text: string, at: number, newline: string): { length: number; mark: string } {
  const character = String.fromCodePoint(text.codePointAt(at) as number);
  const { length } = character;
  if (character === " ") return spaces(text, at);
  if (character === "\n") return { length, mark: newline };
  if (character === "\t") return { length, mark: "⇥" };
  return { length, mark: UNSEEN.test(character) ? codePoint(character) : character };
}

function spaces(text: string, at: number): { length: number; mark: string } {
  let end = at;
  while (text[end] === " ") end += 1;
  const length = end - at;
  return { length, mark: length > MOST_SPACES ? `⟨${length} × U+0020⟩` : " ".repeat(length) };
}

function codePoint(character: string): string {
  const hex = (character.codePointAt(0) as number).toString(16).toUpperCase();
  return `⟨U+${hex.padStart(4, "0")}⟩`;
}

/** Letters that are written from right to left; they would reorder the text around them. */
const RIGHT_TO_LEFT = /[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc\u{10800}-\u{10fff}\u{1e800}-\u{1efff}]/u;

/** Keeps letters that are written from right to left from reordering anything but their own line. */
export function isolate(text: string): string {
  if (!RIGHT_TO_LEFT.test(text)) return text;
  return text
    .split("\n")
    .map((line) => `\u2068${line}\u2069`)
    .join("\n");
}
