import {
  eachElement,
  eachMember,
  isArrayAt,
  isObjectAt,
  type Span,
  skipSpace,
  skipValue,
} from "./json-text.ts";

/** Changes of one value in a valid JSON text. Every other byte stays as it is. */

/** The value at a path; of several members with one name the last, as for `JSON.parse`. */
export function spanAt(raw: string, path: readonly string[]): Span | undefined {
  let start = skipSpace(raw, 0);
  for (const name of path) {
    if (!isObjectAt(raw, start)) return undefined;
    let found: number | undefined;
    eachMember(raw, start, (key, at) => {
      if (key === name) found = at;
      return skipValue(raw, at);
    });
    if (found === undefined) return undefined;
    start = found;
  }
  return { start, end: skipValue(raw, start) };
}

/** The text with another value at the path; the text itself if it has no value there. */
export function replaceAt(raw: string, path: readonly string[], value: string): string {
  const span = spanAt(raw, path);
  return span === undefined ? raw : raw.slice(0, span.start) + value + raw.slice(span.end);
}

/** The text without the elements of the array at the path that `keeps` refuses. */
export function filterAt(raw: string, path: readonly string[], keeps: (element: unknown) => boolean): string {
  const span = spanAt(raw, path);
  if (span === undefined || !isArrayAt(raw, span.start)) return raw;
  const kept: string[] = [];
  eachElement(raw, span.start, (start) => {
    const end = skipValue(raw, start);
    const element = raw.slice(start, end);
    if (keeps(JSON.parse(element))) kept.push(element);
    return end;
  });
  return `${raw.slice(0, span.start)}[${kept.join(",")}]${raw.slice(span.end)}`;
}
