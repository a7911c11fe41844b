/** The longest pause within a body, and the longest time for all of it. */
export type Pace = { stallMs: number; totalMs: number };

/**
 * Passes a body on, and ends it with an error when it arrives too slowly. Only the time counts during which the reader
 * waits for the body.
 */
export function pacedBody(
  body: ReadableStream<Uint8Array>,
  { stallMs, totalMs }: Pace,
  tooSlow: () => Error,
): ReadableStream<Uint8Array> {
  const reader = body.getReader();
  let left = totalMs;
  return new ReadableStream<Uint8Array>(
    {
      async pull(controller) {
        const started = Date.now();
        const piece = left > 0 ? await within(Math.min(stallMs, left), reader.read()) : undefined;
        left -= Date.now() - started;
        if (piece === undefined) {
          controller.error(tooSlow());
          await reader.cancel().catch(() => {});
        } else if (piece.done) controller.close();
        else controller.enqueue(piece.value);
      },
      cancel: (reason) => reader.cancel(reason),
    },
    { highWaterMark: 0 },
  );
}

/** The outcome of the work; undefined if the work takes longer. */
async function within<T>(ms: number, work: Promise<T>): Promise<T | undefined> {
  const late = Promise.withResolvers<undefined>();
  const timer = setTimeout(() => late.resolve(undefined), ms);
  try {
    return await Promise.race([work, late.promise]);
  } finally {
    clearTimeout(timer);
  }
}
