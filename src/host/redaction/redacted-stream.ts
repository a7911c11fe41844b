import type { Hit } from "./pattern-matcher.ts";
import { longBeginning, type Redactor } from "./redactor.ts";

/** Called once a chunk's text is certain: with the redacted text, or with undefined if the text stays as it is. */
export type Release = (text: string | undefined) => void;

type Chunk = { start: number; text: string; release: Release };

/**
 * A text that arrives in chunks. A chunk is held while its end may be the beginning of a secret. A secret that several
 * chunks share is replaced in the first of them and taken out of the others, so that every chunk stays a chunk.
 */
export class RedactedStream {
  readonly #redactor: Redactor;
  /** The end of the text that has been released although a secret may begin there. */
  #released = "";
  #held: Chunk[] = [];
  #text = "";
  #openFrom = 0;

  constructor(redactor: Redactor) {
    this.#redactor = redactor;
  }

  get isHolding(): boolean {
    return this.#held.length > 0;
  }

  /** Number of characters at the end that may be the beginning of a secret. */
  get openChars(): number {
    return this.#text.length - this.#openFrom;
  }

  get chars(): number {
    return this.#text.length;
  }

  push(text: string, release: Release): void {
    if (this.#text === "") this.#text = this.#released;
    this.#held.push({ start: this.#text.length, text, release });
    this.#text += text;
    const { hits, openFrom } = this.#redactor.inspect(this.#text);
    this.#openFrom = openFrom;
    this.#release(hits, this.#firstUncertain(hits, openFrom));
  }

  /**
   * Releases everything. A secret that began in it is still recognised if the stream goes on. A long beginning is hardly
   * a coincidence, so it is taken for the secret itself: an agent could otherwise show most of a secret and interrupt.
   */
  flush(): void {
    if (!this.isHolding) return;
    const { hits, openFrom } = this.#redactor.inspect(this.#text);
    const beginning = longBeginning(hits, openFrom, this.#text.length);
    this.#release([...hits, ...beginning], this.#held.length);
  }

  /** Index of the first chunk that is not certain. Neither is a chunk that shares a secret with an uncertain one. */
  #firstUncertain(hits: readonly Hit[], openFrom: number): number {
    let from = openFrom;
    for (const { start, end } of hits.toReversed()) if (start < from && from < end) from = start;
    let index = this.#held.length;
    for (let at = index - 1; at >= 0; at--) {
      const { start, text } = this.#held[at] as Chunk;
      if (start + text.length <= from) break;
      index = at;
      for (const hit of hits) if (hit.start < start && start < hit.end) from = Math.min(from, hit.start);
    }
    return index;
  }

  #release(hits: readonly Hit[], count: number): void {
    const certain = this.#held.splice(0, count);
    for (const [index, { start, text, release }] of certain.entries())
      release(redactedChunk(text, start, hits, index === 0));
    const from = this.#held[0]?.start ?? this.#openFrom;
    if (this.#held.length === 0) {
      this.#released = this.#text.slice(from);
      this.#text = "";
      this.#openFrom = 0;
      return;
    }
    if (certain.length === 0) return;
    this.#released = "";
    this.#text = this.#text.slice(from);
    this.#openFrom -= from;
    for (const chunk of this.#held) chunk.start -= from;
  }
}

/**
 * The chunk that begins at `start` of the stream, without the secrets in it; undefined if it has none. A secret that
 * began before the first chunk is marked there: its beginning was released without a mark.
 */
function redactedChunk(
  text: string,
  start: number,
  hits: readonly Hit[],
  isFirst: boolean,
): string | undefined {
  const end = start + text.length;
  const touching = hits.filter((hit) => hit.end > start && hit.start < end);
  if (touching.length === 0) return undefined;
  let out = "";
  let copied = start;
  for (const hit of touching) {
    out += text.slice(copied - start, Math.max(hit.start, start) - start);
    if (isFirst || hit.start >= start) out += `[redacted:${hit.name}]`;
    copied = Math.min(hit.end, end);
  }
  return out + text.slice(copied - start);
}
