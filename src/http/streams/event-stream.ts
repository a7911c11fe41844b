import { CloseCode } from "../../protocol/close-codes.ts";

/** The reading end of a watcher's socket, as little of it as is needed here. */
export type WatchSocket = {
  send(text: string): void;
  close(code?: number, reason?: string): void;
  addEventListener(type: "message", listener: (event: { data: unknown }) => void): void;
  addEventListener(type: "close" | "error", listener: () => void): void;
};

/** Silence that is filled, a reader that takes nothing for too long, and when it all ends. */
type Times = { keepAliveMs: number; stallMs: number; endsAt: number };

/**
 * An event stream from a watcher's socket. Asks for a page only when the reader has taken the last one, so
 * at most one page is in memory however slow the reader. When the socket ends (a deploy, a deleted session)
 * the stream ends too: an EventSource comes back by itself, with the id of its last event.
 */
export function eventStream(
  socket: WatchSocket,
  { keepAliveMs, stallMs, endsAt, signal }: Times & { signal: AbortSignal },
): ReadableStream<Uint8Array> {
  const arrived: string[] = [];
  let asked = false;
  let over = false;
  let wake = () => {};
  let taken = () => {};
  socket.addEventListener("message", ({ data }) => {
    arrived.push(data as string);
    asked = false;
    wake();
  });
  const end = () => {
    over = true;
    wake();
    taken();
  };
  socket.addEventListener("close", end);
  socket.addEventListener("error", end);
  const letGo = (reason: string) => {
    socket.close(CloseCode.normal, reason);
    end();
  };
  // A client that vanishes aborts its request; the stream itself is not cancelled then.
  signal.addEventListener("abort", () => letGo("reader gone"));

  /** One that does not read has a place that others may want: not for ever, and not beyond its token. */
  const awaitReader = (controller: ReadableStreamDefaultController) => {
    if (over) return;
    const left = endsAt - Date.now();
    const giveUp = () => {
      letGo(left <= stallMs ? "token expired" : "reader gone");
      controller.close();
    };
    const timer = setTimeout(giveUp, Math.min(stallMs, left));
    taken = () => clearTimeout(timer);
  };

  /** Waits for news; false when time has passed without any. */
  const news = (ms: number) =>
    new Promise<boolean>((resolve) => {
      const timer = setTimeout(() => resolve(false), ms);
      wake = () => {
        clearTimeout(timer);
        resolve(true);
      };
    });

  const give = (controller: ReadableStreamDefaultController<Uint8Array>, text: string) => {
    controller.enqueue(ENCODER.encode(text));
    awaitReader(controller);
  };

  return new ReadableStream<Uint8Array>(
    {
      start: awaitReader,
      async pull(controller) {
        taken();
        for (;;) {
          const text = arrived.shift();
          if (text !== undefined) return give(controller, text);
          const left = endsAt - Date.now();
          if (left <= 0) letGo("token expired");
          if (over) return controller.close();
          if (!asked) socket.send("next");
          asked = true;
          const more = await news(Math.min(keepAliveMs, left));
          if (!more && keepAliveMs <= left) return give(controller, ": keep-alive\n\n");
        }
      },
      cancel() {
        letGo("reader gone");
      },
    },
    { highWaterMark: 0 },
  );
}

const ENCODER = new TextEncoder();
