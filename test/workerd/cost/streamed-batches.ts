import { SendWindow, type WindowClock } from "../../../src/host/link/send-window.ts";

/**
 * The messages in which a host sends a turn whose updates come every `everyMs`, by the host's own window and a clock that
 * needs no time. The answer to the prompt ends the turn.
 */
export function streamedBatches(
  updates: readonly string[],
  everyMs: number,
  answer: string,
  windowMs: number,
): string[][] {
  const clock = new SteppedClock();
  const batches: string[][] = [];
  let waiting: string[] = [];
  const window = new SendWindow(
    windowMs,
    () => {
      batches.push(waiting);
      waiting = [];
      window.close();
    },
    clock,
  );
  const add = (item: string, isUrgent: boolean) => {
    waiting.push(item);
    window.add(item.length, isUrgent);
  };
  window.expectReaction();
  for (const [i, update] of updates.entries()) {
    clock.passTo(i * everyMs);
    add(update, false);
  }
  add(answer, true);
  return batches;
}

/** A clock with one timer, which is all that a window sets. */
class SteppedClock implements WindowClock {
  #now = 0;
  #timer: { at: number; act: () => void } | undefined;

  now(): number {
    return this.#now;
  }

  after(ms: number, act: () => void): () => void {
    const timer = { at: this.#now + ms, act };
    this.#timer = timer;
    return () => {
      if (this.#timer === timer) this.#timer = undefined;
    };
  }

  passTo(time: number): void {
    const timer = this.#timer;
    if (timer && timer.at <= time) {
      this.#timer = undefined;
      this.#now = timer.at;
      timer.act();
    }
    this.#now = time;
  }
}
