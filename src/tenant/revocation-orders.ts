import type { Deadlines } from "../durable/deadlines.ts";
import { callObject } from "../durable/object-call.ts";
import { sessionObject } from "../durable/objects.ts";
import { within } from "../durable/within.ts";
import { type Caller, isTenantAdmin, mayAdminister } from "../protocol/caller.ts";
import type { Limits } from "../protocol/limits.ts";
import { accepted, type Refusal, type Result, refused, unknownSession } from "../protocol/refusal.ts";
import type { CreatedRevocation, Revocation } from "../protocol/rest-tenant.ts";
import type { RevocationOrder, RevokedSession } from "../protocol/rpc.ts";
import type { Act } from "./client/audit.ts";
import type { Enforcement } from "./enforcement.ts";
import type { Revocations } from "./storage/revocations.ts";
import type { TokenList } from "./storage/token-list.ts";

type Parts = {
  env: Env;
  storage: DurableObjectStorage;
  /** The tenant's name. */
  tenant: () => string;
  limits: Pick<Limits, "revocationWaitMs">;
  revocations: Revocations;
  tokens: TokenList;
  enforcement: Enforcement;
  deadlines: Deadlines<"revocations">;
  record: (act: Act) => void;
};

/** Makes, lifts and ends revocations. */
export class RevocationOrders {
  readonly #parts: Parts;

  constructor(parts: Parts) {
    this.#parts = parts;
  }

  /** Returns after everything that the revocation reaches has ended, or has had time to end. */
  async revoke(caller: Caller, order: RevocationOrder): Promise<Result<CreatedRevocation>> {
    const { kind, value } = order;
    if ((kind === "subject" && value === caller.subject) || (kind === "jti" && value === caller.jti))
      return refused({ reason: "conflict", message: "That would lock you out" });
    if (kind !== "session" && !mayAct(caller, order.workspace)) return refused(NOT_TENANT_ADMIN);
    if (!this.#hasRoom(caller, order)) return refused(FULL);
    const ended = kind === "session" ? await this.#revokeSession(caller, value) : undefined;
    if (ended?.ok === false) return ended;
    const revocation = this.#store(caller, {
      ...order,
      workspace: ended ? ended.value.workspace : order.workspace,
    });
    const reached = await this.#parts.enforcement.enforce(revocation, ended?.value.connections);
    const sockets = reached.sockets + (ended?.value.watchers ?? 0);
    return accepted({ ...revocation, reached: { ...reached, sockets } });
  }

  /** Nothing of a revocation is stored without the rest, and nothing is awaited before it is stored. */
  #store(caller: Caller, order: RevocationOrder): Revocation {
    const { storage, revocations, tokens } = this.#parts;
    return storage.transactionSync(() => {
      const revocation = revocations.add(order, caller.subject, Date.now());
      tokens.markChanged();
      this.setDeadline();
      this.#record("revocation.made", caller.subject, revocation);
      return revocation;
    });
  }

  #hasRoom(caller: Caller, order: RevocationOrder): boolean {
    const { revocations } = this.#parts;
    const maker = { subject: caller.subject, isTenantAdmin: isTenantAdmin(caller) };
    return revocations.has(order) || revocations.hasRoom(order, maker, Date.now());
  }

  /** Until the session has responded, nobody knows whether the caller may revoke it. */
  async #revokeSession(caller: Caller, sessionId: string): Promise<Result<RevokedSession>> {
    const revoking = this.#session(sessionId).revoke(caller);
    const revoked = await within<Result<RevokedSession>>(this.#parts.limits.revocationWaitMs, revoking);
    if (!revoked)
      return refused({ reason: "unavailable", message: "The session does not respond: try again" });
    return revoked.ok ? revoked : refused(unknownSession(sessionId));
  }

  async lift(caller: Caller, id: string): Promise<Result<undefined>> {
    const { enforcement } = this.#parts;
    const revocation = this.list(caller).find((one) => one.id === id);
    if (!revocation) return refused(UNKNOWN_REVOCATION);
    // The session may be deleted by now: then there is nothing to restore.
    if (revocation.kind === "session")
      await callObject(
        () => this.#session(revocation.value),
        (session) => session.restore(caller),
      );
    this.#remove(id);
    this.#record("revocation.lifted", caller.subject, revocation);
    await enforcement.release(revocation);
    return accepted();
  }

  /** The revocations in workspaces that the caller administers; for an administrator of the tenant all of them. */
  list(caller: Caller): Revocation[] {
    return this.#parts.revocations.list().filter(({ workspace }) => mayAct(caller, workspace));
  }

  #record(
    kind: "revocation.made" | "revocation.lifted",
    subject: string,
    { kind: of, value, workspace }: Revocation,
  ): void {
    const session = of === "session" ? value : undefined;
    const detail = { [of]: value };
    this.#parts.record({ kind, subject, workspace: workspace ?? undefined, session, detail });
  }

  /**
   * Ends the revocations whose time is over. A session is restored before its row goes: a session that cannot be
   * restored now keeps its row, holds up no other, and is tried again.
   */
  async endDue(): Promise<void> {
    const { revocations, enforcement } = this.#parts;
    const tenant = this.#parts.tenant();
    const failures: unknown[] = [];
    for (const revocation of revocations.ended(Date.now())) {
      const { id, kind, value } = revocation;
      try {
        if (kind === "session")
          await callObject(
            () => this.#session(value),
            (session) => session.endRevocation(tenant),
          );
        this.#remove(id);
        await enforcement.release(revocation);
      } catch (error) {
        failures.push(error);
      }
    }
    if (failures.length > 0) throw new AggregateError(failures, `${failures.length} revocations not ended`);
    this.setDeadline();
  }

  #remove(id: string): void {
    this.#parts.revocations.remove(id);
    this.#parts.tokens.markChanged();
  }

  setDeadline(): void {
    const { revocations, deadlines } = this.#parts;
    const next = revocations.nextEnd();
    if (next === null) deadlines.clear("revocations");
    else deadlines.setAtMost("revocations", next);
  }

  #session(id: string) {
    const { env, tenant } = this.#parts;
    return sessionObject(env, tenant(), id);
  }
}

/** Whether the caller administers the workspace, or without one the tenant. */
function mayAct(caller: Caller, workspace: string | null): boolean {
  return workspace === null ? isTenantAdmin(caller) : mayAdminister(caller, workspace);
}

export const UNKNOWN_REVOCATION: Refusal = { reason: "not-found", message: "Unknown revocation" };

const FULL: Refusal = {
  reason: "conflict",
  message:
    "There are too many revocations: lift some, or revoke the subject as an administrator of the tenant",
};

const NOT_TENANT_ADMIN: Refusal = {
  reason: "forbidden",
  message:
    "Revoking beyond one workspace takes the scope tenant:admin; an administrator of a workspace names it",
};
