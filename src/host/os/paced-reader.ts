import type { Readable } from "node:stream";

const WINDOW_MS = 50;
/** About 80 MB per second: more than any reader needs, and a fraction of what a process can write. */
const WINDOW_BYTES = 4 * 1024 * 1024;

/**
 * Reads the output of a process at a limited rate. A process that writes without end then blocks on its own pipe
 * instead of keeping the host from serving other processes.
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
