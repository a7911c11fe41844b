import { ErrorCode, errorResponse } from "../../protocol/errors.ts";
import { isFault, readFrame } from "../../protocol/frame.ts";

/** What the editor has asked and not been answered yet: when all is lost, it is told so. */
export class Pending {
  readonly #ids = new Set<string>();

  asked(line: string): void {
    const frame = readFrame(line);
    if (!isFault(frame) && frame.kind === "request" && frame.idText !== undefined)
      this.#ids.add(frame.idText);
  }

  answered(line: string): void {
    // Nearly everything is an update, and no answer looks like one.
    if (this.#ids.size === 0 || line.includes('"method":"session/update"')) return;
    const frame = readFrame(line);
    if (!isFault(frame) && frame.kind === "response" && frame.idText !== undefined)
      this.#ids.delete(frame.idText);
  }

  /** An error for each of them. */
  fail(message: string): string[] {
    const answers = [...this.#ids].map((id) => errorResponse(id, { code: ErrorCode.internal, message }));
    this.#ids.clear();
    return answers;
  }
}
