/**
 * Entries whose answer is under way. An order to end an entry may overtake the answer that lets it in: the entry is then
 * ended before it begins. The call in progress keeps the object in memory, so nothing has to be stored.
 */
export class PendingEntries {
  readonly #pending = new Set<{ readonly key: string; isEnded: boolean }>();

  /** `isEnded`: an order to end the entry came before the answer. */
  async during<T>(key: string, asking: Promise<T>): Promise<{ answer: T; isEnded: boolean }> {
    const entry = { key, isEnded: false };
    this.#pending.add(entry);
    try {
      return { answer: await asking, isEnded: entry.isEnded };
    } finally {
      this.#pending.delete(entry);
    }
  }

  has(key: string): boolean {
    return [...this.#pending].some((entry) => entry.key === key);
  }

  end(key: string): void {
    for (const entry of this.#pending) if (entry.key === key) entry.isEnded = true;
  }
}
