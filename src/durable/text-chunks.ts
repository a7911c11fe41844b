/**
 * Cuts a text into chunks of at most `maxChars` UTF-16 units, for a storage row or a socket message that holds no more.
 * A cut never falls between the halves of a surrogate pair, so every chunk is valid text. An empty text is one chunk.
 */
export function textChunks(text: string, maxChars: number): string[] {
  if (text.length <= maxChars) return [text];
  const chunks: string[] = [];
  for (let start = 0; start < text.length; ) {
    let end = Math.min(start + maxChars, text.length);
    if (end < text.length && isHighSurrogate(text.charCodeAt(end - 1))) end -= 1;
    chunks.push(text.slice(start, end));
    start = end;
  }
  return chunks;
}

function isHighSurrogate(unit: number): boolean {
  return unit >= 0xd800 && unit <= 0xdbff;
}
