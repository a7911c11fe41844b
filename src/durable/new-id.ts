import { ulid } from "ulid";

/** A unique id of the given kind, such as `turn_01J…`. */
export function newId(kind: string): string {
  return `${kind}_${newUlid()}`;
}

/** A ULID of the given time in milliseconds since the epoch; of the current time without one. */
export function newUlid(at?: number): string {
  return ulid(at, randomFraction);
}

/** Random bytes fetched for many ids at a time, because each fetch leaves the isolate. */
const pool = { bytes: new Uint8Array(1024), used: 1024 };

function randomFraction(): number {
  if (pool.used === pool.bytes.length) {
    crypto.getRandomValues(pool.bytes);
    pool.used = 0;
  }
  const byte = pool.bytes[pool.used] as number;
  pool.used += 1;
  return byte / 256;
}
