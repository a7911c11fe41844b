import { CloseCode } from "../protocol/close-codes.ts";
import type { Limits } from "../protocol/limits.ts";
import { accepted, type Refusal, type Result, refused } from "../protocol/refusal.ts";
import type { Allowance, Amounts, SocketRegistration } from "../protocol/rpc.ts";
import type { EntryResult } from "../protocol/subject-rpc.ts";
import { type Deadlines, retryDelayMs } from "./deadlines.ts";
import { callObject } from "./object-call.ts";
import { subjectObject } from "./objects.ts";
import { PendingEntries } from "./pending-entries.ts";

type Parts = {
  ctx: DurableObjectState;
  env: Env;
  limits: Pick<Limits, "socketsPerSubject">;
  deadlines: Pick<Deadlines<"registration">, "setAtMost">;
  isOpen: (id: string) => boolean;
  /** Closes a socket that the subject's object does not allow. */
  end: (id: string, reason: string, code: number) => void;
};

/** A registration as its holder keeps it; `leaseUntil` is 0 while the subject's object has never answered. */
type Stored = {
  readonly registration: SocketRegistration;
  readonly leaseUntil: number;
  /** When the subject's object is asked again. */
  readonly renewAt: number;
};

/**
 * Registers the sockets of an object with the objects of their subjects, and renews their leases while the sockets live.
 * A revocation that was made before is found here; a later one finds the socket. A subject's object that does not respond
 * has not revoked anything (I11): an open socket stays, and the registration is repeated by a deadline.
 */
export class SocketRegistrar {
  readonly #parts: Parts;
  readonly #pending = new PendingEntries();
  /** Consecutive failures. An eviction forgets them and restarts the pauses, which does no harm. */
  #failures = 0;

  constructor(parts: Parts) {
    this.#parts = parts;
  }

  /** Lets a socket in that is about to open. The value is the first allowance of what was `asked` for. */
  async enter(socket: SocketRegistration, asked?: Amounts): Promise<Result<Allowance | undefined>> {
    const { id } = socket;
    const registration = { ...socket, entry: crypto.randomUUID() };
    const { answer, isEnded } = await this.#pending.during(id, this.#ask(registration, asked));
    if (answer === "unknown") return refused(UNKNOWN);
    if (answer.result === "too-many") return refused(this.#tooMany());
    if (answer.result !== "registered" || isEnded) return refused(REVOKED);
    this.#keep(registration, answer.leaseUntil);
    return accepted(answer.allowance);
  }

  /** Registers an open socket in the background, because it continues with another token. */
  register(registration: SocketRegistration): void {
    const { subject, entry } = this.#stored(registration.id)?.registration ?? {};
    const isSame = subject === registration.subject && entry !== undefined;
    const named = { ...registration, entry: isSame ? entry : crypto.randomUUID() };
    this.#parts.ctx.waitUntil(this.#register(named));
  }

  /** Whether the socket is registered with this token, and need not ask again: a revocation would have ended it. */
  isRegistered({ id, jti, expires, subject }: SocketRegistration): boolean {
    const stored = this.#stored(id);
    const { registration } = stored ?? {};
    return (
      registration?.jti === jti &&
      registration.expires === expires &&
      registration.subject === subject &&
      (stored?.leaseUntil ?? 0) > Date.now() + MARGIN_MS
    );
  }

  /** Whether there is such a socket, or one is about to open. */
  holds(id: string): boolean {
    return this.#pending.has(id) || this.#parts.isOpen(id);
  }

  /** An order to end the socket has come; it may be under way. */
  markEnded(id: string): void {
    this.#pending.end(id);
  }

  /** The socket is closed, or did not open. `unused` is the rest of its allowance. */
  async leave(id: string, unused?: Allowance): Promise<void> {
    const registration = this.#stored(id)?.registration;
    if (registration) await this.signOff(registration, unused);
  }

  /** For an object that deletes its storage. */
  async leaveAll(): Promise<void> {
    await Promise.all(this.#all().map(({ registration }) => this.signOff(registration)));
  }

  async signOff(
    { tenant, subject, id }: Pick<SocketRegistration, "tenant" | "subject" | "id">,
    unused?: Allowance,
  ): Promise<void> {
    const { ctx, env } = this.#parts;
    // Only this entry ends: the socket may enter again before the call arrives.
    const entry = this.#stored(id)?.registration.entry;
    ctx.storage.kv.delete(`${PREFIX}${id}`);
    try {
      await callObject(
        () => subjectObject(env, tenant, subject),
        (object) => object.leave(id, unused, entry),
      );
    } catch (error) {
      // The row ends with its lease, and the allowance with its hour.
      console.warn("socket not signed off", { id, error: String(error) });
    }
  }

  /** Serves the deadline `registration`: renews leases, repeats unanswered registrations, signs off lost sockets. */
  async retry(): Promise<void> {
    const { ctx, deadlines, isOpen } = this.#parts;
    for (const [key, registration] of ctx.storage.kv.list<SocketRegistration>({ prefix: EARLIER_PREFIX })) {
      ctx.storage.kv.delete(key);
      this.#store({ registration, leaseUntil: 0, renewAt: 0 });
    }
    const now = Date.now();
    await Promise.all(
      this.#all().map(async ({ registration, renewAt }) => {
        const { id, expires } = registration;
        if (expires * 1000 <= now || !isOpen(id)) await this.signOff(registration);
        else if (renewAt <= now) await this.#register(registration);
        else deadlines.setAtMost("registration", renewAt);
      }),
    );
  }

  async #register(registration: SocketRegistration): Promise<void> {
    const { end } = this.#parts;
    const { id } = registration;
    const answer = await this.#ask(registration);
    if (answer === "unknown") return this.#repeatLater(registration);
    this.#failures = 0;
    if (answer.result === "registered") return this.#keep(registration, answer.leaseUntil);
    this.#parts.ctx.storage.kv.delete(`${PREFIX}${id}`);
    if (answer.result === "revoked") end(id, "token revoked", CloseCode.unauthorized);
    else end(id, "too many connections", CloseCode.tryAgainLater);
  }

  #repeatLater(registration: SocketRegistration): void {
    this.#failures += 1;
    // Many sockets lose one object at once, and must not come back at once.
    const renewAt = Date.now() + retryDelayMs(this.#failures) * (0.5 + Math.random());
    const leaseUntil = this.isRegistered(registration) ? (this.#stored(registration.id)?.leaseUntil ?? 0) : 0;
    this.#store({ registration, leaseUntil, renewAt });
    this.#parts.deadlines.setAtMost("registration", renewAt);
  }

  #keep(registration: SocketRegistration, leaseUntil: number): void {
    const now = Date.now();
    // About half of the lease, and not for all sockets at once. A lease that ends with its token is not renewed.
    const renewAt = Math.min(
      now + (leaseUntil - now) * (0.4 + 0.2 * Math.random()),
      registration.expires * 1000,
    );
    this.#store({ registration, leaseUntil, renewAt });
    this.#parts.deadlines.setAtMost("registration", renewAt);
  }

  async #ask(registration: SocketRegistration, asked?: Amounts): Promise<EntryResult | "unknown"> {
    const { tenant, subject, kind, id } = registration;
    try {
      return await callObject(
        () => subjectObject(this.#parts.env, tenant, subject),
        (object) => object.enter(registration, asked),
      );
    } catch (error) {
      console.error("socket not registered", { kind, id, error: String(error) });
      return "unknown";
    }
  }

  #tooMany(): Refusal {
    const { socketsPerSubject } = this.#parts.limits;
    return {
      reason: "too-many",
      message: `One user may have ${socketsPerSubject} connections at a time`,
      retryAfterMs: TOO_MANY_RETRY_MS,
    };
  }

  #stored(id: string): Stored | undefined {
    return this.#parts.ctx.storage.kv.get<Stored>(`${PREFIX}${id}`);
  }

  #all(): Stored[] {
    return [...this.#parts.ctx.storage.kv.list<Stored>({ prefix: PREFIX })].map(([, stored]) => stored);
  }

  #store(stored: Stored): void {
    this.#parts.ctx.storage.kv.put(`${PREFIX}${stored.registration.id}`, stored);
  }
}

export const REVOKED: Refusal = { reason: "unauthorized", message: "A valid token is required" };

export const UNKNOWN: Refusal = {
  reason: "unavailable",
  message: "The token cannot be checked now: try again",
  retryAfterMs: 1000,
};

/** A registration must hold for a while after it was looked up. */
const MARGIN_MS = 60_000;

/** Open connections do not tell when there is room again. */
const TOO_MANY_RETRY_MS = 10_000;

/** The keys of stored registrations, and those of the previous release, which stored unanswered ones alone. */
const PREFIX = "socket:";
const EARLIER_PREFIX = "unanswered-registration:";
