/** Those who wait for something to have changed, to look again. */
export class Changes {
  readonly #waiting = new Set<() => void>();

  /** Something has changed. */
  announce(): void {
    for (const wake of [...this.#waiting]) wake();
  }

  /** Resolves at the next change, or when it is too late for one. */
  next(deadline: number): Promise<void> {
    return new Promise((resolve) => {
      const wake = () => {
        clearTimeout(timer);
        this.#waiting.delete(wake);
        resolve();
      };
      const timer = setTimeout(wake, deadline - Date.now());
      this.#waiting.add(wake);
    });
  }
}
