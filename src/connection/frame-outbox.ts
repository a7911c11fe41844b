import type { Refusal, Result } from "../protocol/refusal.ts";
import type { ReceivedFrames } from "../protocol/rpc.ts";

/**
 * Why a frame did not reach its session: the session refuses the client, the session failed to handle the frame, or it
 * has not responded for long. In the last case nobody knows whether the session has the frame.
 */
export type Undelivered = Refusal | "unreachable" | "failed";

/** `attaches`: the frame may attach the client to the session. */
export type NumberedFrame = { readonly frame: string; readonly number: number; readonly attaches?: boolean };

/** `isRepeated`: the batch was sent before and got no answer. */
type Send = (batch: readonly NumberedFrame[], isRepeated: boolean) => Promise<Result<ReceivedFrames>>;

/**
 * Frames for one session, in order. Frames that arrive while a batch is under way form the next batches, each of about
 * `maxChars` or of one larger frame: the runtime refuses a call over 32 MiB. A batch that does not reach the session
 * stays first and is sent again, with growing pauses, for `retryMs`; the session recognises frames by their numbers, and
 * counts a frame that ends its object.
 */
export class FrameOutbox {
  readonly #send: Send;
  readonly #maxChars: number;
  readonly #retryMs: number;
  #waiting: (NumberedFrame & { refuse: (why: Undelivered) => void })[] = [];
  #running: Promise<void> | undefined;

  constructor(
    send: Send,
    { deliverChars, frameRetryMs }: Readonly<Record<"deliverChars" | "frameRetryMs", number>>,
  ) {
    this.#send = send;
    this.#maxChars = deliverChars;
    this.#retryMs = frameRetryMs;
  }

  /** Resolves when every frame has been handed over or refused. */
  get settled(): Promise<void> {
    return this.#running ?? Promise.resolve();
  }

  get isEmpty(): boolean {
    return this.#running === undefined;
  }

  /** Resolves when the frame and all before it have been handed over or refused. */
  put(frame: NumberedFrame, refuse: (why: Undelivered) => void): Promise<void> {
    this.#waiting.push({ ...frame, refuse });
    this.#running ??= this.#drain();
    return this.#running;
  }

  async #drain(): Promise<void> {
    try {
      while (this.#waiting.length > 0) {
        const batch = this.#waiting.splice(0, leading(this.#waiting, this.#maxChars));
        const result = await this.#try(batch);
        for (const { refuse, number } of batch) {
          if (result === "unreachable") refuse(result);
          else if (!result.ok) refuse(result.refusal);
          else if (result.value.failed.includes(number)) refuse("failed");
        }
      }
    } finally {
      // Cleared here, not by whoever awaits the promise: a frame put in between would stay.
      this.#running = undefined;
    }
  }

  async #try(batch: readonly NumberedFrame[]): Promise<"unreachable" | Result<ReceivedFrames>> {
    const until = Date.now() + this.#retryMs;
    for (let attempt = 1; ; attempt += 1) {
      try {
        return await this.#send(batch, attempt > 1);
      } catch (error) {
        console.error("session unreachable", { attempt, error: String(error) });
        if (Date.now() >= until) return "unreachable";
        await pause(Math.min(FIRST_PAUSE_MS * 2 ** (attempt - 1), LONGEST_PAUSE_MS) * (0.5 + Math.random()));
      }
    }
  }
}

/** How many of the frames fit into one call: at least the first. */
function leading(frames: readonly NumberedFrame[], maxChars: number): number {
  let chars = 0;
  const over = frames.findIndex(({ frame }, i) => {
    chars += frame.length;
    return i > 0 && chars > maxChars;
  });
  return over === -1 ? frames.length : over;
}

const FIRST_PAUSE_MS = 250;
const LONGEST_PAUSE_MS = 4000;

function pause(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}
