import { CloseCode } from "../../protocol/close-codes.ts";

/** The part of a socket that an event stream needs. */
export type PageSocket = {
  send(text: string): void;
  close(code?: number, reason?: string): void;
  addEventListener(type: "message", listener: (event: { data: unknown }) => void): void;
  addEventListener(type: "close" | "error", listener: () => void): void;
};

/**
 * `keepAliveMs`: the longest silence before a comment is sent. `stallMs`: how long a reader may take nothing.
 * `endsAt`: when the stream ends in any case.
 */
type Timing = { keepAliveMs: number; stallMs: number; endsAt: number };

/**
 * An event stream from a socket that sends one page per request. The stream requests a page only after the reader has
 * taken the last one, so memory holds at most one page, however slow the reader is. The stream ends with its socket
 * (a deploy, a deleted session); an EventSource then reconnects with the id of its last event.
 */
export function eventStream(
  socket: PageSocket,
  { keepAliveMs, stallMs, endsAt, signal }: Timing & { signal: AbortSignal },
): ReadableStream<Uint8Array> {
  const pages: string[] = [];
  let isRequested = false;
  let hasEnded = false;
  let wake = () => {};
  let stopStallTimer = () => {};
  socket.addEventListener("message", ({ data }) => {
    pages.push(data as string);
    isRequested = false;
    wake();
  });
  const end = () => {
    hasEnded = true;
    wake();
    stopStallTimer();
  };
  socket.addEventListener("close", end);
  socket.addEventListener("error", end);
  const release = (reason: string) => {
    socket.close(CloseCode.normal, reason);
    end();
  };
  // A client that vanishes aborts its request; the runtime does not cancel the stream.
  signal.addEventListener("abort", () => release("reader gone"));

  /** A reader that takes nothing occupies a place that others may need, so it loses the stream. */
  const startStallTimer = (controller: ReadableStreamDefaultController) => {
    if (hasEnded) return;
    const left = endsAt - Date.now();
    const giveUp = () => {
      release(left <= stallMs ? "token expired" : "reader gone");
      controller.close();
    };
    const timer = setTimeout(giveUp, Math.min(stallMs, left));
    stopStallTimer = () => clearTimeout(timer);
  };

  /** Resolves to true with the next page or the end of the socket, to false when the time has passed. */
  const waitForSocket = (ms: number) =>
    new Promise<boolean>((resolve) => {
      const timer = setTimeout(() => resolve(false), ms);
      wake = () => {
        clearTimeout(timer);
        resolve(true);
      };
    });

  const enqueue = (controller: ReadableStreamDefaultController<Uint8Array>, text: string) => {
    controller.enqueue(ENCODER.encode(text));
    startStallTimer(controller);
  };

  return new ReadableStream<Uint8Array>(
    {
      start: startStallTimer,
      async pull(controller) {
        stopStallTimer();
        for (;;) {
          const page = pages.shift();
          if (page !== undefined) return enqueue(controller, page);
          const left = endsAt - Date.now();
          if (left <= 0) release("token expired");
          if (hasEnded) return controller.close();
          if (!isRequested) socket.send("next");
          isRequested = true;
          const isAwake = await waitForSocket(Math.min(keepAliveMs, left));
          if (!isAwake && keepAliveMs <= left) return enqueue(controller, ": keep-alive\n\n");
        }
      },
      cancel() {
        release("reader gone");
      },
    },
    { highWaterMark: 0 },
  );
}

const ENCODER = new TextEncoder();
