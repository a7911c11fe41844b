import type { Redactor } from "../redaction/redactor.ts";

/** The end of an agent's stderr without secrets, even where the cut goes through a secret. */
export class StderrTail {
  readonly #chars: number;
  readonly #redactor: Redactor;
  #text = "";
  #cut = false;

  constructor(chars: number, redactor: Redactor) {
    this.#chars = chars;
    this.#redactor = redactor;
  }

  push(text: string): void {
    const kept = this.#chars + this.#redactor.reach;
    const all = this.#text + text;
    this.#cut ||= all.length > kept;
    this.#text = all.slice(-kept);
  }

  read(): string {
    const safe = this.#redactor.redact(this.#text);
    // The remainder of a secret that was cut is at the very beginning.
    return (this.#cut ? safe.slice(this.#redactor.reach) : safe).slice(-this.#chars);
  }
}
