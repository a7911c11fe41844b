/** Wakes everyone who waits for a state to change, so that they look again. */
export class Changes {
  readonly #waiting = new Set<() => void>();

  announce(): void {
    for (const wake of [...this.#waiting]) wake();
  }

  /** Resolves at the next change, or at the deadline if that comes first. */
  next(deadline?: number): Promise<void> {
    return new Promise((resolve) => {
      const wake = () => {
        clearTimeout(timer);
        this.#waiting.delete(wake);
        resolve();
      };
      const timer = deadline === undefined ? undefined : setTimeout(wake, deadline - Date.now());
      this.#waiting.add(wake);
    });
  }
}
