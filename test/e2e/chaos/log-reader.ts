/** A live reader of one session's log. It keeps every event and notes each gap or repetition as it happens. */
import { setTimeout as sleep } from "node:timers/promises";
import type { LogEvent } from "../client.ts";
import { EventStream } from "./event-stream.ts";
import { tokenOf } from "./journal.ts";

export class LogReader {
  readonly name: string;
  readonly sessionId: string;
  /** The lines by event; index 0 is event 1. */
  readonly lines: string[] = [];
  readonly violations: string[] = [];
  readonly #seqs = new Map<string, number>();
  readonly #stream: EventStream;

  constructor(name: string, sessionId: string, url: string, token: string) {
    this.name = name;
    this.sessionId = sessionId;
    this.#stream = new EventStream({
      url: `${url}/api/sessions/${sessionId}/events`,
      headers: { authorization: `Bearer ${token}` },
      onEvent: (data, id) => this.#take(data, Number(id)),
      onRefused: (status) => {
        if (status < 500) this.violations.push(`${new Date().toISOString()} refused with ${status}`);
      },
    });
  }

  /** Resolves when the log has this update. */
  async seqOf(token: string): Promise<number> {
    for (;;) {
      const seq = this.#seqs.get(token);
      if (seq !== undefined) return seq;
      await sleep(20);
    }
  }

  close(): Promise<void> {
    return this.#stream.close();
  }

  #take(line: string, seq: number): void {
    const expected = this.lines.length + 1;
    if (seq !== expected)
      this.violations.push(`${new Date().toISOString()} got event ${seq} in place of event ${expected}`);
    while (this.lines.length < seq - 1) this.lines.push("");
    this.lines[seq - 1] = line;
    const { payload } = JSON.parse(line) as LogEvent;
    const token = tokenOf(payload.message?.params?.update);
    if (token !== undefined) this.#seqs.set(token, seq);
  }
}
