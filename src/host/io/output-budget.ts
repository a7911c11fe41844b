import { OutputTail } from "./output-tail.ts";

/**
 * A common limit for the memory of many outputs: those of one agent, and those of all agents of the host. If the memory
 * is used up, the oldest output of any agent is dropped.
 */
export class OutputBudget {
  readonly #limit: number;
  readonly #around: OutputBudget | undefined;
  readonly #tails = new Set<OutputTail>();
  #used = 0;

  /** `around` is a budget that this one is a part of. */
  constructor(limit: number, around?: OutputBudget) {
    this.#limit = limit;
    this.#around = around;
  }

  get used(): number {
    return this.#used;
  }

  /** A new output that keeps at most `limit` bytes. */
  open(limit: number): OutputTail {
    const tail = new OutputTail(limit, {
      take: (bytes) => this.#take(bytes),
      free: (bytes) => this.#free(bytes),
    });
    this.#add(tail);
    return tail;
  }

  /** Forgets an output and frees its memory. */
  close(tail: OutputTail): void {
    while (tail.age !== undefined) tail.dropOldest();
    this.#remove(tail);
  }

  #add(tail: OutputTail): void {
    this.#tails.add(tail);
    if (this.#around) this.#around.#add(tail);
  }

  #remove(tail: OutputTail): void {
    this.#tails.delete(tail);
    if (this.#around) this.#around.#remove(tail);
  }

  #take(bytes: number): void {
    if (this.#around) this.#around.#take(bytes);
    this.#used += bytes;
    while (this.#used > this.#limit && this.#dropOldest());
  }

  #free(bytes: number): void {
    if (this.#around) this.#around.#free(bytes);
    this.#used -= bytes;
  }

  /** False if nothing is left to drop. */
  #dropOldest(): boolean {
    let oldest: OutputTail | undefined;
    for (const tail of this.#tails)
      if (tail.age !== undefined && (oldest?.age === undefined || tail.age < oldest.age)) oldest = tail;
    oldest?.dropOldest();
    return oldest !== undefined;
  }
}
