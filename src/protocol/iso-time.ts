/** A time in milliseconds since the epoch as ISO 8601, the format of times in answers. */
export function isoTime(ms: number): string {
  return new Date(ms).toISOString();
}
