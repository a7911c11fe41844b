/** A shorter value could occur in any text by chance. */
export const SECRET_CHARS_MIN = 8;

/**
 * The texts under which a value can appear once JSON escapes and percent encoding are undone: the value itself, hex, and
 * base64 in either alphabet at each of the three alignments that the bytes before it can cause.
 */
export function formsOf(value: string): string[] {
  const bytes = Buffer.from(value, "utf8");
  const plain = [value, bytes.toString("latin1")];
  const forms = [
    ...plain,
    ...plain.map((text) => text.replaceAll(" ", "+")),
    bytes.toString("hex"),
    bytes.toString("hex").toUpperCase(),
  ];
  for (const alignment of [0, 1, 2] as const) {
    const text = base64Within(bytes, alignment);
    forms.push(text, text.replaceAll("+", "-").replaceAll("/", "_"));
  }
  return [...new Set(forms)];
}

/** The characters that depend on the bytes alone, whichever bytes stand before and after them. */
function base64Within(bytes: Buffer, alignment: 0 | 1 | 2): string {
  const text = Buffer.concat([Buffer.alloc(alignment), bytes])
    .toString("base64")
    .replace(/={1,2}$/, "");
  const isWhole = (alignment + bytes.length) % 3 === 0;
  return text.slice([0, 2, 3][alignment], isWhole ? undefined : -1);
}
