import type { ExitStatus } from "./command-terminal.ts";

/** Characters of the end of an output that are reported if the output has exceeded its limit. */
const END_CHARS = 16 * 1024;

/** Receives the reports of all terminals of one agent. */
export type TerminalReports = {
  /** Whether there is space for another report. */
  hasRoom(): boolean;
  output(terminalId: string, data: string): void;
  ended(terminalId: string, status: ExitStatus): void;
  /** Removes secrets from a part of an output, and the parts of secrets at its ends. */
  redactPart(text: string, ends: { isCut: boolean; goesOn: boolean }): string;
};

/**
 * Reports the output of one terminal to the session, for people who watch: at once after a pause, then a piece per
 * window, because each piece is kept in the session's log. Of a long output the beginning and the end are reported.
 */
export class TerminalReport {
  readonly #terminalId: string;
  readonly #reports: TerminalReports;
  readonly #windowMs: number;
  /** Characters that may still be reported as they come. */
  #left: number;
  #waiting = "";
  /** The end of the output beyond the limit, and the number of characters between. */
  #end = "";
  #omitted = 0;
  #timer: NodeJS.Timeout | undefined;

  constructor(terminalId: string, reports: TerminalReports, limits: { chars: number; windowMs: number }) {
    this.#terminalId = terminalId;
    this.#reports = reports;
    this.#windowMs = limits.windowMs;
    this.#left = limits.chars;
  }

  push(text: string): void {
    const piece = text.slice(0, this.#left);
    this.#left -= piece.length;
    this.#waiting += piece;
    this.#keepEnd(text.slice(piece.length));
    if (this.#timer === undefined) this.#flush();
  }

  /** The command has ended, and its output is complete. */
  finish(status: ExitStatus): void {
    clearTimeout(this.#timer);
    this.#send();
    if (this.#end !== "") {
      const mark = this.#omitted === 0 ? "" : `\n… ${this.#omitted} characters are left out …\n`;
      const ends = { isCut: this.#omitted > 0, goesOn: false };
      this.#reports.output(this.#terminalId, mark + this.#reports.redactPart(this.#end, ends));
    }
    this.#reports.ended(this.#terminalId, status);
  }

  #keepEnd(text: string): void {
    const end = this.#end + text;
    this.#omitted += Math.max(0, end.length - END_CHARS);
    this.#end = end.slice(-END_CHARS);
  }

  /** If there is no space, the output waits: it is bounded. */
  #flush(): void {
    this.#timer = undefined;
    if (this.#waiting === "") return;
    if (this.#reports.hasRoom()) this.#send();
    this.#timer = setTimeout(() => this.#flush(), this.#windowMs).unref();
  }

  #send(): void {
    if (this.#waiting !== "") this.#reports.output(this.#terminalId, this.#waiting);
    this.#waiting = "";
  }
}
