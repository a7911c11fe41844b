import { DurableObject } from "cloudflare:workers";
import { Deadlines } from "../durable/deadlines.ts";
import { sessionObject } from "../durable/object-names.ts";
import { Tables } from "../durable/schema.ts";
import type { Caller, Scope } from "../protocol/caller.ts";
import { type Limits, readLimits } from "../protocol/limits.ts";
import { accepted, type Result, refused, unknownSession } from "../protocol/refusal.ts";
import type { AuditEntry, Revocation, Share } from "../protocol/rest.ts";
import type {
  Allowance,
  Amounts,
  ObjectAddress,
  RevocationOrder,
  ShareOrder,
  SocketRegistration,
} from "../protocol/rpc.ts";
import type { Act } from "./client/audit.ts";
import { TENANT_SCHEMA } from "./schema.ts";
import { AuditLog, type AuditQuery } from "./storage/audit-log.ts";
import { Quotas } from "./storage/quotas.ts";
import { RegisteredSockets } from "./storage/registered-sockets.ts";
import { Revocations } from "./storage/revocations.ts";
import { bearerName, Shares } from "./storage/shares.ts";

/**
 * One tenant: its revoked tokens, its open sockets with their tokens, the quotas of its subjects in this hour, its
 * share links, and its audit log. Reading creates no tables: an unknown tenant leaves no trace.
 *
 * Other rooms call it through `tenant/client/`; `tenant/storage/` runs in this object only.
 */
export class TenantState extends DurableObject<Env> {
  readonly #limits: Limits;
  readonly #tables: Tables;
  readonly #revocations: Revocations;
  readonly #sockets: RegisteredSockets;
  readonly #audit: AuditLog;
  readonly #quotas: Quotas;
  readonly #shares: Shares;
  readonly #deadlines: Deadlines<"revocations">;

  constructor(ctx: DurableObjectState, env: Env) {
    super(ctx, env);
    const { sql } = ctx.storage;
    this.#limits = readLimits(env.LIMITS);
    this.#tables = new Tables(ctx.storage, TENANT_SCHEMA);
    this.#revocations = new Revocations(sql);
    this.#sockets = new RegisteredSockets(sql);
    this.#audit = new AuditLog(sql, this.#limits.auditEntries);
    this.#quotas = new Quotas(sql, this.#limits);
    this.#shares = new Shares(sql);
    this.#deadlines = new Deadlines(ctx.storage);
  }

  // ---- tokens and sockets -----------------------------------------------------------------------------

  isRevoked(caller: Pick<Caller, "subject" | "jti">): boolean {
    return this.#tables.exist && this.#revocations.covers(caller, Date.now());
  }

  /** False: the token is revoked, and the socket must be closed. */
  registerSocket(registration: SocketRegistration): boolean {
    this.#tables.create();
    if (this.#revocations.covers(registration, Date.now())) return false;
    this.#sockets.put(registration, Date.now());
    return true;
  }

  /** `refund` is the unspent rest of the connection's allowance. */
  unregisterSocket(id: string, refund?: { subject: string; unused: Allowance }): void {
    if (this.#tables.exist) this.#sockets.remove(id);
    if (refund) this.refundAllowance(refund.subject, refund.unused);
  }

  countSockets(subject: string): number {
    return this.#tables.exist ? this.#sockets.countOf(subject, Date.now()) : 0;
  }

  // ---- quotas -----------------------------------------------------------------------------------------

  /** False: the subject may open no more sessions in this hour. */
  takeSessionQuota(subject: string): boolean {
    this.#tables.create();
    return this.#quotas.takeOne(subject, "sessions", Date.now());
  }

  /** A part of the subject's quotas for one connection to spend. The tenant counts it as spent. */
  grantAllowance(subject: string, asked: Amounts): Allowance {
    this.#tables.create();
    return this.#quotas.grant(subject, asked, this.countSockets(subject), Date.now());
  }

  refundAllowance(subject: string, unused: Allowance): void {
    if (this.#tables.exist) this.#quotas.refund(subject, unused, Date.now());
  }

  // ---- revocations ------------------------------------------------------------------------------------

  /** Returns after all sockets with the revoked token are closed. */
  async revoke(caller: Caller, { kind, value, until }: RevocationOrder): Promise<Result<Revocation>> {
    this.#checkScope(caller, "workspace:admin");
    if ((kind === "subject" && value === caller.subject) || (kind === "jti" && value === caller.jti))
      return refused({ reason: "conflict", message: "That would lock you out" });
    this.#tables.create();
    const { revocations: max } = this.#limits;
    if (this.#revocations.count >= max && !this.#revocations.has(kind, value))
      return refused({ reason: "conflict", message: `A tenant has at most ${max} revocations: lift some` });
    if (kind === "session" && !(await this.#session(value).revoke(caller)).ok)
      return refused(unknownSession(value));
    const revocation = this.#revocations.add(kind, value, caller.subject, Date.now(), until);
    this.#setDeadline();
    this.recordAct({ kind: "revocation.made", subject: caller.subject, detail: { [kind]: value } });
    if (kind !== "session") await this.#closeSockets(kind, value);
    return accepted(revocation);
  }

  async liftRevocation(caller: Caller, id: string): Promise<Result<undefined>> {
    this.#checkScope(caller, "workspace:admin");
    const revocation = this.#tables.exist ? this.#revocations.find(id) : undefined;
    if (!revocation) return refused({ reason: "not-found", message: "Unknown revocation" });
    const { kind, value } = revocation;
    // The session may be deleted by now: then there is nothing to restore.
    if (kind === "session") await this.#session(value).restore(caller);
    this.#revocations.remove(id);
    this.recordAct({ kind: "revocation.lifted", subject: caller.subject, detail: { [kind]: value } });
    return accepted();
  }

  listRevocations(caller: Caller): Revocation[] {
    this.#checkScope(caller, "workspace:admin");
    return this.#tables.exist ? this.#revocations.list() : [];
  }

  override async alarm(): Promise<void> {
    if (!this.#tables.exist) return;
    this.#setDeadline();
    await this.#deadlines.run(Date.now(), { revocations: () => this.#endRevocations() });
  }

  /**
   * Ends the revocations whose time is over. A session is restored before its row goes: a session that cannot be
   * restored now keeps its row, holds up no other, and is tried again.
   */
  async #endRevocations(): Promise<void> {
    const tenant = this.ctx.id.name ?? "";
    const failures: unknown[] = [];
    for (const { id, kind, value } of this.#revocations.ended(Date.now())) {
      try {
        if (kind === "session") await this.#session(value).restore({ tenant });
        this.#revocations.remove(id);
      } catch (error) {
        failures.push(error);
      }
    }
    if (failures.length > 0) throw new AggregateError(failures, `${failures.length} revocations not ended`);
    this.#setDeadline();
  }

  #setDeadline(): void {
    const next = this.#revocations.nextEnd();
    if (next === null) this.#deadlines.clear("revocations");
    else this.#deadlines.setAtMost("revocations", next);
  }

  async #closeSockets(key: "jti" | "subject", value: string): Promise<void> {
    const sockets = this.#sockets.having(key, value);
    const closed = await Promise.allSettled(sockets.map(({ id, holder }) => this.#closeSocket(id, holder)));
    const failed = closed.filter(({ status }) => status === "rejected").length;
    if (failed > 0) console.error("sockets of a revoked token not closed", { sockets: failed });
  }

  async #closeSocket(id: string, { class: holder, name }: ObjectAddress): Promise<void> {
    const object = {
      connection: this.env.ACP_CONNECTION_DO,
      session: this.env.ACP_SESSION_DO,
      workspace: this.env.WORKSPACE_STATE_DO,
    }[holder] as DurableObjectNamespace<SocketHolder>;
    await object.getByName(name).endSocket(id, "token revoked");
    this.#sockets.remove(id);
  }

  // ---- share links ------------------------------------------------------------------------------------

  createShare(caller: Caller, order: ShareOrder, hash: string): Share {
    this.#checkScope(caller, "share");
    this.#tables.create();
    const { subject } = caller;
    const { session, workspace, redact } = order;
    const share = this.#shares.add(order, subject, Date.now(), hash);
    this.recordAct({ kind: "share.made", subject, workspace, session, detail: { id: share.id, redact } });
    return share;
  }

  listShares(caller: Caller): Share[] {
    this.#checkScope(caller, "share");
    return this.#tables.exist ? this.#shares.list(caller, Date.now()) : [];
  }

  /** Returns after all sockets that the link opened are closed. */
  async removeShare(caller: Caller, id: string): Promise<Result<undefined>> {
    const share = this.listShares(caller).find((one) => one.id === id);
    if (!share) return refused({ reason: "not-found", message: "Unknown share" });
    this.#shares.remove(id);
    const { session, workspace } = share;
    this.recordAct({ kind: "share.revoked", subject: caller.subject, workspace, session, detail: { id } });
    await this.#closeSockets("jti", bearerName(id));
    return accepted();
  }

  /** The caller that presents a link; undefined for an unknown or expired link. */
  shareBearer(hash: string): Caller | undefined {
    return this.#tables.exist ? this.#shares.bearer(this.ctx.id.name ?? "", hash, Date.now()) : undefined;
  }

  // ---- audit ------------------------------------------------------------------------------------------

  recordAct(act: Act): void {
    this.#tables.create();
    this.#audit.add(act, Date.now());
  }

  auditPage(caller: Caller, query: AuditQuery): { entries: AuditEntry[]; next: number | null } {
    this.#checkScope(caller, "workspace:admin");
    return this.#tables.exist ? this.#audit.page(caller, query) : { entries: [], next: null };
  }

  // ---- itself -----------------------------------------------------------------------------------------

  /** The Worker lets no other caller through; a caller without the scope is a fault. */
  #checkScope({ tenant, scopes }: Caller, scope: Scope): void {
    if (tenant !== this.ctx.id.name || !scopes.includes(scope)) throw new Error("Not this caller's tenant");
  }

  #session(id: string) {
    return sessionObject(this.env, this.ctx.id.name ?? "", id);
  }
}

/** The method that every object with registered sockets has. */
type SocketHolder = Rpc.DurableObjectBranded & {
  endSocket(id: string, reason: string): Promise<void> | void;
};
