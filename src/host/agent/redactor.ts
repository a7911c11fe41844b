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

  /** The same for a text that is JSON and stays so. */
  redactJson(text: string): string {
    const safe = this.redact(text);
    if (safe === text || isJson(safe) || !isJson(text)) return safe;
    // A value with backslashes has been cut out of the middle of an escape: take it out of the strings instead.
    return JSON.stringify(this.#within(JSON.parse(text)));
  }

  #within(value: unknown): unknown {
    if (typeof value === "string") return this.redact(value);
    if (Array.isArray(value)) return value.map((element) => this.#within(element));
    if (typeof value !== "object" || value === null) return value;
    return Object.fromEntries(
      Object.entries(value).map(([key, member]) => [this.redact(key), this.#within(member)]),
    );
  }
}

function isJson(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}

function escaped(text: string): string {
  return text.replace(/[\\^$.*+?()[\]{}|]/g, "\\$&");
}
