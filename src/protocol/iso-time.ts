/** A time in milliseconds since the epoch as ISO 8601, the format of times in answers. */
export function isoTime(ms: number): string {
  return new Date(ms).toISOString();
}

/** Milliseconds since the epoch; NaN for a text that is no date. */
export function timeOf(text: string): number {
  return Date.parse(text);
}
