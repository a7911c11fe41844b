/** Shorter values are words that occur anywhere. */
const SECRET_CHARS_MIN = 8;

/** Takes the values of secrets out of texts, as they are and as they stand inside JSON strings. */
export class Redactor {
  readonly #names = new Map<string, string>();
  #pattern: RegExp | undefined;

  /** A value once known stays known: there may be processes that still have it. */
  learn(name: string, value: string): void {
    if (value.trim().length < SECRET_CHARS_MIN) return;
    let form = value.trim();
    // JSON within JSON, as in the arguments of a tool: twice is what agents do.
    for (let depth = 0; depth <= 2; depth++) {
      this.#names.set(form, name);
      form = JSON.stringify(form).slice(1, -1);
    }
    const forms = [...this.#names.keys()].sort((a, b) => b.length - a.length);
    this.#pattern = new RegExp(forms.map((one) => escaped(one)).join("|"), "g");
  }

  /** Length of the longest text it takes out: how far one may reach over a cut. */
  get longest(): number {
    return Math.max(0, ...[...this.#names.keys()].map((form) => form.length));
  }

  redact(text: string): string {
    return this.#pattern
      ? text.replace(this.#pattern, (form) => `[redacted:${this.#names.get(form)}]`)
      : text;
  }
}

function escaped(text: string): string {
  return text.replace(/[\\^$.*+?()[\]{}|]/g, "\\$&");
}
