/** Why a frame did not reach its session: there is none for this caller, or it could not be reached. */
export type Refusal = "unknown" | "unreachable";

/** A frame and its number. */
type Item = { frame: string; number: number };

/** Frames for one session: what gathers while a batch is under way goes together as the next one. */
export class Outbox {
  readonly #send: (batch: readonly Item[]) => Promise<boolean>;
  #waiting: (Item & { refused: (why: Refusal) => void })[] = [];
  #running: Promise<void> | undefined;

  /** `send` resolves to false when the receiver does not take the frames. */
  constructor(send: (batch: readonly Item[]) => Promise<boolean>) {
    this.#send = send;
  }

  get isEmpty(): boolean {
    return this.#running === undefined;
  }

  /** Resolves when the frame, and all before it, have been handed over or refused. */
  put(item: Item, refused: (why: Refusal) => void): Promise<void> {
    this.#waiting.push({ ...item, refused });
    this.#running ??= this.#drain();
    return this.#running;
  }

  async #drain(): Promise<void> {
    try {
      while (this.#waiting.length > 0) {
        const batch = this.#waiting.splice(0);
        const why = await this.#try(batch);
        if (why) for (const item of batch) item.refused(why);
      }
    } finally {
      // At once, not when whoever waits hears of it: what is put in meanwhile would stay.
      this.#running = undefined;
    }
  }

  async #try(batch: readonly Item[]): Promise<Refusal | undefined> {
    try {
      return (await this.#send(batch)) ? undefined : "unknown";
    } catch (error) {
      console.error("session unreachable", { error: String(error) });
      return "unreachable";
    }
  }
}
