import type { Line } from "../../node/line-splitter.ts";

/** What a line on an agent's stdout turned out to be. */
export type AgentOutput = { frame: string; message: Record<string, unknown> } | { noise: string };

const NOISE_CHARS = 4 * 1024;

/** A JSON object is a frame; anything else but white space is noise. */
export function readOutput(line: Line): AgentOutput | null {
  if (typeof line !== "string") return { noise: line.noise.slice(0, NOISE_CHARS) };
  const text = line.endsWith("\r") ? line.slice(0, -1) : line;
  try {
    const message: unknown = JSON.parse(text);
    if (typeof message === "object" && message !== null && !Array.isArray(message)) {
      // On the link the first character tells a frame from an event of the host.
      return { frame: text.trimStart(), message: message as Record<string, unknown> };
    }
  } catch {
    if (text.trim() === "") return null;
  }
  return { noise: text.slice(0, NOISE_CHARS) };
}

/** More lines than this in a second are not even read. */
const FLOOD = 10_000;

/** Lets so much noise through per second, then only says how much there was. */
export class NoiseLimit {
  readonly #perSecond: number;
  readonly #report: (text: string) => void;
  #passed = 0;
  #dropped = 0;
  #calm = Promise.withResolvers<void>();
  #second: NodeJS.Timeout | undefined;

  constructor(perSecond: number, report: (text: string) => void) {
    this.#perSecond = perSecond;
    this.#report = report;
  }

  admit(): boolean {
    this.#second ??= setTimeout(() => this.flush(), 1000);
    if (this.#passed < this.#perSecond) {
      this.#passed++;
      return true;
    }
    this.#dropped++;
    return false;
  }

  /** There is so much that it is better not to read on in this second; `calm` tells when it is over. */
  get flooded(): boolean {
    return this.#dropped > FLOOD;
  }

  get calm(): Promise<void> {
    return this.flooded ? this.#calm.promise : Promise.resolve();
  }

  /** Ends the current second. */
  flush(): void {
    clearTimeout(this.#second);
    this.#second = undefined;
    const dropped = this.#dropped;
    this.#passed = 0;
    this.#dropped = 0;
    this.#calm.resolve();
    this.#calm = Promise.withResolvers();
    if (dropped > 0) this.#report(`(${dropped} more lines like these were dropped)`);
  }
}
