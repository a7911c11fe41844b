/** The beginning of a text, never half a surrogate pair. */
export function clip(text: string, maxChars: number): string {
  if (text.length <= maxChars) return text;
  const last = text.charCodeAt(maxChars - 1);
  const end = last >= 0xd800 && last <= 0xdbff ? maxChars - 1 : maxChars;
  // This makes a copy, because a slice would keep the whole text in memory.
  return JSON.parse(JSON.stringify(text.slice(0, end))) as string;
}

/**
 * A message for people or for logs, on one line. It may quote input of any length and any number of lines, and shows
 * only the beginning.
 */
export function clipMessage(text: string): string {
  const shown = text.length <= MESSAGE_CHARS ? text : `${clip(text, MESSAGE_CHARS)}…`;
  const [first = "", ...more] = shown.split(/[\r\n\u0085\u2028\u2029]/u);
  const lines = more.map((line) => line.trim()).filter((line) => line !== "");
  return more.length === 0 ? first : [first.trimEnd(), ...lines].join(" ");
}

const MESSAGE_CHARS = 2000;
