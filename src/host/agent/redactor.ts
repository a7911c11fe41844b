/** A shorter value could occur in any text by chance. */
const SECRET_CHARS_MIN = 8;

/** Replaces the values of secrets in texts, both in plain form and as they appear inside JSON strings. */
export class Redactor {
  readonly #names = new Map<string, string>();
  #pattern: RegExp | undefined;

  /** A learnt value is never forgotten, because a running process may still have it. */
  learn(name: string, value: string): void {
    if (value.trim().length < SECRET_CHARS_MIN) return;
    let form = value.trim();
    // Agents nest JSON in JSON up to twice, for example in the arguments of a tool.
    for (let depth = 0; depth <= 2; depth++) {
      this.#names.set(form, name);
      form = JSON.stringify(form).slice(1, -1);
    }
    const forms = [...this.#names.keys()].sort((a, b) => b.length - a.length);
    this.#pattern = new RegExp(forms.map(escapeForRegExp).join("|"), "g");
  }

  /** Length of the longest form of any secret: how far a secret can reach across a cut. */
  get longest(): number {
    return Math.max(0, ...[...this.#names.keys()].map((form) => form.length));
  }

  redact(text: string): string {
    return this.#pattern
      ? text.replace(this.#pattern, (form) => `[redacted:${this.#names.get(form)}]`)
      : text;
  }

  /** Redacts a JSON text and keeps it valid JSON. */
  redactJson(text: string): string {
    const safe = this.redact(text);
    if (safe === text || isJson(safe) || !isJson(text)) return safe;
    // The replacement has split an escape sequence, so redact each string of the value instead.
    return JSON.stringify(this.#redactValue(JSON.parse(text)));
  }

  #redactValue(value: unknown): unknown {
    if (typeof value === "string") return this.redact(value);
    if (Array.isArray(value)) return value.map((element) => this.#redactValue(element));
    if (typeof value !== "object" || value === null) return value;
    return Object.fromEntries(
      Object.entries(value).map(([key, member]) => [this.redact(key), this.#redactValue(member)]),
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

function escapeForRegExp(text: string): string {
  return text.replace(/[\\^$.*+?()[\]{}|]/g, "\\$&");
}
