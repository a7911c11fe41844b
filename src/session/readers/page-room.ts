/**
 * Room for the pages that are under way to the clients of a session. Each page is copied several times on its way, and
 * waits in the memory of the client's socket until the client has read it. So large pages go to one client after the
 * other, and small ones to all clients at once.
 */
export class PageRoom {
  readonly #maxChars: number;
  readonly #patience: () => Promise<unknown>;
  #chars = 0;
  #waiting: { chars: number; begin: () => void }[] = [];

  /** `patience` resolves when a page has waited long enough: a client that does not respond holds up no other. */
  constructor(maxChars: number, patience: () => Promise<unknown>) {
    this.#maxChars = maxChars;
    this.#patience = patience;
  }

  /** Takes room for a page. False: there is none now. A page that is larger than the whole room goes alone. */
  take(chars: number): boolean {
    if (!this.#fits(chars)) return false;
    this.#chars += chars;
    return true;
  }

  #fits(chars: number): boolean {
    return this.#chars === 0 || this.#chars + chars <= this.#maxChars;
  }

  /** Resolves when there is room for so large a page; to false, if the page need not wait any longer. */
  turn(chars: number): Promise<boolean> {
    const { promise, resolve } = Promise.withResolvers<boolean>();
    const waiting = { chars, begin: () => resolve(true) };
    this.#waiting.push(waiting);
    void this.#patience().then(() => {
      this.#waiting = this.#waiting.filter((other) => other !== waiting);
      resolve(false);
    });
    return promise;
  }

  /** Takes the room although there is none. */
  force(chars: number): void {
    this.#chars += chars;
  }

  /** Keeps the room of a page until the client has read the page, which the returned function says, or is too slow. */
  keep(chars: number): () => void {
    let isKept = true;
    const release = () => {
      if (isKept) this.free(chars);
      isKept = false;
    };
    void this.#patience().then(release);
    return release;
  }

  /** The page has arrived, or its client is gone. */
  free(chars: number): void {
    this.#chars -= chars;
    this.passOn();
  }

  /**
   * Gives the page that has waited longest, of those that fit, its turn: it is read again then. A reader that leaves
   * without using its turn has to pass it on.
   */
  passOn(): void {
    const next = this.#waiting.findIndex(({ chars }) => this.#fits(chars));
    if (next !== -1) this.#waiting.splice(next, 1)[0]?.begin();
  }
}
