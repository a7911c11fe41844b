/** The beginning of a text, never half a surrogate pair. */
export function clip(text: string, maxChars: number): string {
  if (text.length <= maxChars) return text;
  const last = text.charCodeAt(maxChars - 1);
  const end = last >= 0xd800 && last <= 0xdbff ? maxChars - 1 : maxChars;
  // This makes a copy, because a slice would keep the whole text in memory.
  return JSON.parse(JSON.stringify(text.slice(0, end))) as string;
}

/** A message for people or for logs. It may quote input of any length, and shows only the beginning. */
export function clipMessage(text: string): string {
  return text.length <= MESSAGE_CHARS ? text : `${clip(text, MESSAGE_CHARS)}…`;
}

const MESSAGE_CHARS = 2000;
