/** The reading end of a watcher's socket, as little of it as is needed here. */
export type WatchSocket = {
  send(text: string): void;
  close(code?: number, reason?: string): void;
  addEventListener(type: "message", listener: (event: { data: unknown }) => void): void;
  addEventListener(type: "close" | "error", listener: () => void): void;
};

/**
 * An event stream from a watcher's socket. Asks for a page only when the reader has taken the last one, so
 * at most one page is in memory however slow the reader. When the socket ends (a deploy, a deleted session)
 * the stream ends too: an EventSource comes back by itself, with the id of its last event.
 */
export function eventStream(
  socket: WatchSocket,
  { keepAliveMs, endsAt, signal }: { keepAliveMs: number; endsAt: number; signal: AbortSignal },
): ReadableStream<Uint8Array> {
  const arrived: string[] = [];
  let asked = false;
  let over = false;
  let wake = () => {};
  socket.addEventListener("message", ({ data }) => {
    arrived.push(data as string);
    asked = false;
    wake();
  });
  const end = () => {
    over = true;
    wake();
  };
  socket.addEventListener("close", end);
  socket.addEventListener("error", end);
  // A client that vanishes aborts its request; the stream itself is not cancelled then.
  signal.addEventListener("abort", () => {
    socket.close(1000, "reader gone");
    end();
  });

  /** Waits for news; false when time has passed without any. */
  const news = (ms: number) =>
    new Promise<boolean>((resolve) => {
      const timer = setTimeout(() => resolve(false), ms);
      wake = () => {
        clearTimeout(timer);
        resolve(true);
      };
    });

  return new ReadableStream<Uint8Array>(
    {
      async pull(controller) {
        for (;;) {
          const text = arrived.shift();
          if (text !== undefined) return controller.enqueue(ENCODER.encode(text));
          const left = endsAt - Date.now();
          if (left <= 0) socket.close(1000, "token expired");
          if (over || left <= 0) return controller.close();
          if (!asked) socket.send("next");
          asked = true;
          const more = await news(Math.min(keepAliveMs, left));
          if (!more && keepAliveMs <= left) return controller.enqueue(ENCODER.encode(": keep-alive\n\n"));
        }
      },
      cancel() {
        over = true;
        socket.close(1000, "reader gone");
      },
    },
    { highWaterMark: 0 },
  );
}

const ENCODER = new TextEncoder();
