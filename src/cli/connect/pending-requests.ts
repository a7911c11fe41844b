import { ErrorCode, errorResponse } from "../../protocol/errors.ts";
import { isFault, readFrame } from "../../protocol/frame.ts";

/** What the editor has asked and not been answered yet: when all is lost, it is told so. */
export class Pending {
  /** The session each is about, if it is about one. */
  readonly #asked = new Map<string, string | undefined>();
  readonly #failed = new Set<string>();

  asked(line: string): void {
    const frame = readFrame(line);
    if (!isFault(frame) && frame.kind === "request" && frame.idText !== undefined) {
      this.#asked.set(frame.idText, frame.sessionId);
      this.#failed.delete(frame.idText);
    }
  }

  /** False: it answers what has been answered in its place. */
  answered(line: string): boolean {
    // Nearly everything is an update, and no answer begins like one.
    if (line.startsWith(UPDATE) || (this.#asked.size === 0 && this.#failed.size === 0)) return true;
    const frame = readFrame(line);
    if (isFault(frame) || frame.kind !== "response" || frame.idText === undefined) return true;
    this.#asked.delete(frame.idText);
    return !this.#failed.delete(frame.idText);
  }

  /** An error for each of them, or of those that are about one session. */
  fail(message: string, sessionId?: string): string[] {
    const ids = [...this.#asked].flatMap(([id, about]) =>
      sessionId === undefined || about === sessionId ? id : [],
    );
    for (const id of ids) {
      this.#asked.delete(id);
      this.#failed.add(id);
    }
    return ids.map((id) => errorResponse(id, { code: ErrorCode.internal, message }));
  }
}

const UPDATE = '{"jsonrpc":"2.0","method":"session/update"';
