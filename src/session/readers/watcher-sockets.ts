import type { Caller } from "../../protocol/caller.ts";
import { type Result, refused, unknownSession } from "../../protocol/refusal.ts";
import type { SessionContext, SessionParts } from "../session-parts.ts";

type Context = Pick<SessionContext, "sockets" | "access">;
type Parts = Pick<SessionParts, "journal" | "registrar" | "watchers">;

/** The sockets of live readers of the log, each registered with the object of its subject. */
export class WatcherSockets {
  readonly #context: Context;
  readonly #parts: Parts;

  constructor(context: Context, parts: Parts) {
    this.#context = context;
    this.#parts = parts;
  }

  /** A socket that gets the log from the event after `after` on. Its subject's object knows the socket by `id`. */
  async open(caller: Caller, after: number, id: string): Promise<Result<WebSocket>> {
    const { sockets, access } = this.#context;
    const { journal, registrar, watchers } = this.#parts;
    const full = watchers.refusal(caller);
    if (full) return full;
    const { sessionId } = journal.requireState();
    const { registration, tags } = sockets.prepare(caller, sessionId, id);
    const entered = await registrar.enter(registration);
    if (!entered.ok) return entered;
    const result = access.mayRead(caller)
      ? watchers.accept(caller, after, tags)
      : refused(unknownSession(sessionId));
    if (!result.ok) await registrar.leave(id);
    return result;
  }

  /** The socket is closed. */
  leave(id: string): Promise<void> {
    return this.#parts.registrar.leave(id);
  }

  /** Whether there is such a socket, or one is about to open. */
  holds(id: string): boolean {
    return this.#parts.registrar.holds(id);
  }

  /** An order to end the socket has come, maybe before the socket. */
  markEnded(id: string): void {
    this.#parts.registrar.markEnded(id);
  }
}
