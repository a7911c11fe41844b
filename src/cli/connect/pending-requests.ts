import { ErrorCode, errorResponse } from "../../protocol/errors.ts";
import { isFault, readFrame } from "../../protocol/frame.ts";

/** Requests of the editor without a response. If the link gives up, each of them gets an error. */
export class PendingRequests {
  /** Request id → session id, if the request concerns a session. */
  readonly #pending = new Map<string, string | undefined>();
  /** Ids of requests that got an error here; the gateway may still answer them. */
  readonly #failed = new Set<string>();

  add(line: string): void {
    const frame = readFrame(line);
    if (!isFault(frame) && frame.kind === "request" && frame.idText !== undefined) {
      this.#pending.set(frame.idText, frame.sessionId);
      this.#failed.delete(frame.idText);
    }
  }

  /** Records a response. False if its request already got an error, so that the response must be dropped. */
  settle(line: string): boolean {
    // Most lines are updates, which are not responses.
    if (line.startsWith(UPDATE) || (this.#pending.size === 0 && this.#failed.size === 0)) return true;
    const frame = readFrame(line);
    if (isFault(frame) || frame.kind !== "response" || frame.idText === undefined) return true;
    this.#pending.delete(frame.idText);
    return !this.#failed.delete(frame.idText);
  }

  /** Error responses for all pending requests, or for those of one session. */
  fail(message: string, sessionId?: string): string[] {
    const ids = [...this.#pending].flatMap(([id, about]) =>
      sessionId === undefined || about === sessionId ? id : [],
    );
    for (const id of ids) {
      this.#pending.delete(id);
      this.#failed.add(id);
    }
    return ids.map((id) => errorResponse(id, { code: ErrorCode.internal, message }));
  }
}

const UPDATE = '{"jsonrpc":"2.0","method":"session/update"';
