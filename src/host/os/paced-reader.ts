import type { Readable } from "node:stream";

const WINDOW_MS = 50;
/** About 80 MB a second: more than anybody reads, and a small part of what a processor can write. */
const WINDOW_BYTES = 4 * 1024 * 1024;

/**
 * Takes what a process writes, but no faster than that. One that writes without end then waits for its own pipe
 * instead of keeping the host from everybody else's.
 */
export function readPaced<Chunk extends { length: number }>(
  stream: Readable,
  take: (chunk: Chunk) => void,
): void {
  let taken = 0;
  let counting = false;
  const start = () => {
    counting = false;
    taken = 0;
    stream.resume();
  };
  stream.on("data", (chunk: Chunk) => {
    take(chunk);
    taken += chunk.length;
    if (!counting) setTimeout(start, WINDOW_MS);
    counting = true;
    if (taken >= WINDOW_BYTES) stream.pause();
  });
}
