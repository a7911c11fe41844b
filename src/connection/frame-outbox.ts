/** Why a frame did not reach its session: the caller knows no such session, or the session does not respond. */
export type Undelivered = "unknown" | "unreachable";

type NumberedFrame = { readonly frame: string; readonly number: number };

/** Frames for one session, in order. Frames that arrive while a batch is under way form the next batch. */
export class FrameOutbox {
  readonly #send: (batch: readonly NumberedFrame[]) => Promise<boolean>;
  #waiting: (NumberedFrame & { refuse: (why: Undelivered) => void })[] = [];
  #running: Promise<void> | undefined;

  /** `send` resolves to false when the caller knows no such session. */
  constructor(send: (batch: readonly NumberedFrame[]) => Promise<boolean>) {
    this.#send = send;
  }

  get isEmpty(): boolean {
    return this.#running === undefined;
  }

  /** Resolves when the frame and all before it have been handed over or refused. */
  put({ frame, number }: NumberedFrame, refuse: (why: Undelivered) => void): Promise<void> {
    this.#waiting.push({ frame, number, refuse });
    this.#running ??= this.#drain();
    return this.#running;
  }

  async #drain(): Promise<void> {
    try {
      while (this.#waiting.length > 0) {
        const batch = this.#waiting.splice(0);
        const why = await this.#try(batch);
        if (why) for (const { refuse } of batch) refuse(why);
      }
    } finally {
      // Cleared here, not by whoever awaits the promise: a frame put in between would stay.
      this.#running = undefined;
    }
  }

  async #try(batch: readonly NumberedFrame[]): Promise<Undelivered | undefined> {
    try {
      return (await this.#send(batch)) ? undefined : "unknown";
    } catch (error) {
      console.error("session unreachable", { error: String(error) });
      return "unreachable";
    }
  }
}
