import type { Caller } from "../protocol/caller.ts";
import { type Refused, type Result, refused, unknownSession } from "../protocol/refusal.ts";
import { LoadedSession } from "./loaded-session.ts";
import type { SessionContext } from "./session-parts.ts";
import { refuseNewer } from "./session-refusals.ts";

type Outcome<T> = Result<T> | Promise<Result<T>>;

/** Loads the object's session for callers that may use it. A caller without access learns nothing, not even by time. */
export class SessionGate {
  readonly #context: SessionContext;
  #loaded: LoadedSession | undefined;

  constructor(context: SessionContext) {
    this.#context = context;
  }

  /** The session; undefined if this object holds none. */
  readonly session = async (): Promise<LoadedSession | undefined> => {
    if (!this.#context.access.owner) return undefined;
    const session = this.load();
    try {
      await session.ready;
    } catch (error) {
      // The archive could not be read, so the next call loads the session again.
      if (this.#loaded === session) this.#loaded = undefined;
      throw error;
    }
    return session.isDeleted ? undefined : session;
  };

  readonly load = (): LoadedSession => {
    // A deleted session may be followed by another one.
    if (!this.#loaded || this.#loaded.isDeleted) this.#loaded = new LoadedSession(this.#context);
    return this.#loaded;
  };

  /**
   * Calls `use` if the caller may read the session, and refuses by `otherwise` if not. The right is checked again
   * afterwards, because the session may be deleted or revoked meanwhile.
   */
  readonly read = async <T>(
    caller: Caller,
    use: (session: LoadedSession) => Outcome<T>,
    otherwise?: Refused,
  ): Promise<Result<T>> => {
    const { access } = this.#context;
    const session = access.mayRead(caller) ? await this.session().catch(refuseNewer) : undefined;
    if (!session) return otherwise ?? this.unknown();
    if ("refusal" in session) return session;
    try {
      const result = await use(session);
      return access.mayRead(caller) ? result : (otherwise ?? this.unknown());
    } catch (error) {
      if (session.isDeleted) return otherwise ?? this.unknown();
      throw error;
    }
  };

  /** Calls `use` if the caller may steer the session, and refuses by `otherwise` if not. */
  readonly steer = async <T>(
    caller: Caller,
    use: (session: LoadedSession) => Outcome<T>,
    otherwise?: Refused,
  ): Promise<Result<T>> => {
    const { access } = this.#context;
    const session = access.maySteer(caller) ? await this.session().catch(refuseNewer) : undefined;
    if (!session) return otherwise ?? this.unknown();
    return "refusal" in session ? session : use(session);
  };

  readonly unknown = (): Refused =>
    refused(unknownSession(this.#context.ctx.id.name?.split("/").at(-1) ?? ""));
}
