import { DurableObject } from "cloudflare:workers";
import { sessionObject } from "../durable/object-names.ts";
import { Tables } from "../durable/schema.ts";
import type { Caller } from "../protocol/caller.ts";
import { LIMITS } from "../protocol/limits.ts";
import type { Allowance, Amounts, ObjectAddress, SocketRegistration } from "../protocol/rpc.ts";
import { type AuditEntry, AuditLog, type AuditQuery } from "./audit-log.ts";
import type { Act } from "./client/audit.ts";
import { Quotas } from "./quotas.ts";
import { type Revocation, type RevocationKind, Revocations } from "./revocations.ts";
import { TENANT_SCHEMA } from "./schema.ts";
import { nameOf, type Share, Shares } from "./shares.ts";
import { LiveSockets } from "./sockets.ts";

export type ShareOrder = { session: string; workspace: string; expires: number; redact: boolean };
export type RevocationOrder = { kind: RevocationKind; value: string; until: number | null };

/**
 * One tenant: which tokens are good no more, which sockets are open with whose token, how much its users may still do
 * in this hour, and what was done with rights that not everybody has.
 */
export class TenantState extends DurableObject<Env> {
  readonly #revocations: Revocations;
  readonly #live: LiveSockets;
  readonly #audit: AuditLog;
  readonly #quotas: Quotas;
  readonly #shares: Shares;
  readonly #tables: Tables;

  constructor(ctx: DurableObjectState, env: Env) {
    super(ctx, env);
    const { sql } = ctx.storage;
    this.#tables = new Tables(ctx.storage, TENANT_SCHEMA);
    this.#revocations = new Revocations(sql);
    this.#live = new LiveSockets(sql);
    this.#audit = new AuditLog(sql);
    this.#quotas = new Quotas(sql);
    this.#shares = new Shares(sql);
  }

  // ---- sockets and requests ---------------------------------------------------------------------------

  isRevoked(caller: Pick<Caller, "subject" | "jti">): boolean {
    return this.#tables.exist && this.#revocations.covers(caller, Date.now());
  }

  /**
   * A socket is open. Its object says so after it has accepted it: whatever is revoked later finds it here, and
   * what was revoked before is noticed now. False: it must end.
   */
  registerSocket(registration: SocketRegistration): boolean {
    this.#tables.create();
    if (this.#revocations.covers(registration, Date.now())) return false;
    this.#live.put(registration, Date.now());
    return true;
  }

  socketsOf(subject: string): number {
    return this.#tables.exist ? this.#live.countOf(subject, Date.now()) : 0;
  }

  /** False: the subject may open no more sessions in this hour. */
  countOpening(subject: string): boolean {
    this.#tables.create();
    return this.#quotas.takeOne(subject, "sessions", Date.now());
  }

  /** A part of what the subject may still do in this hour, for one connection to spend: it counts as spent from now on. */
  allow(subject: string, asked: Amounts): Allowance {
    this.#tables.create();
    return this.#quotas.grant(subject, asked, this.socketsOf(subject), Date.now());
  }

  /** What a connection did not need. */
  giveBack(subject: string, unused: Allowance): void {
    if (this.#tables.exist) this.#quotas.giveBack(subject, unused, Date.now());
  }

  /** A socket is closed; with what its connection did not need. */
  unregisterSocket(id: string, refund?: { subject: string; unused: Allowance }): void {
    if (this.#tables.exist) this.#live.remove(id);
    if (refund) this.giveBack(refund.subject, refund.unused);
  }

  // ---- revocations ------------------------------------------------------------------------------------

  /** Null: there is no such session for the caller. */
  async revoke(caller: Caller, order: RevocationOrder): Promise<Revocation | { refused: string } | null> {
    this.#checkAdmin(caller);
    const { kind, value, until } = order;
    if ((kind === "subject" && value === caller.subject) || (kind === "jti" && value === caller.jti))
      return { refused: "That would lock you out" };
    if (kind === "session" && !(await this.#session(value).revoke(caller)).ok) return null;
    this.#tables.create();
    if (this.#revocations.count >= LIMITS.revocations)
      return { refused: `A tenant has at most ${LIMITS.revocations} revocations: lift some` };
    const revocation = this.#revocations.add(kind, value, caller.subject, Date.now(), until);
    if (until !== null) await this.#arm();
    this.record({ kind: "revocation.made", subject: caller.subject, detail: { [kind]: value } });
    if (kind !== "session") await this.#endAll(kind, value);
    return revocation;
  }

  /** False: there is no such revocation. */
  async lift(caller: Caller, id: string): Promise<boolean> {
    this.#checkAdmin(caller);
    const revocation = this.#tables.exist ? this.#revocations.find(id) : undefined;
    if (!revocation) return false;
    const { kind, value } = revocation;
    // Of a session that was deleted since there is nothing to give back.
    if (kind === "session") await this.#session(value).restore(caller);
    this.#revocations.remove(id);
    this.record({ kind: "revocation.lifted", subject: caller.subject, detail: { [kind]: value } });
    return true;
  }

  revocations(caller: Caller): Revocation[] {
    this.#checkAdmin(caller);
    return this.#tables.exist ? this.#revocations.list() : [];
  }

  /** Some end by themselves. */
  override async alarm(): Promise<void> {
    if (!this.#tables.exist) return;
    for (const { kind, value } of this.#revocations.takeEnded(Date.now())) {
      const tenant = this.ctx.id.name;
      if (kind === "session" && tenant !== undefined) await this.#session(value).restore({ tenant });
    }
    await this.#arm();
  }

  async #arm(): Promise<void> {
    const next = this.#revocations.nextEnd();
    if (next !== null) await this.ctx.storage.setAlarm(next);
  }

  async #endAll(key: "jti" | "subject", value: string): Promise<void> {
    const sockets = this.#live.having(key, value);
    const ended = await Promise.allSettled(sockets.map(({ id, holder }) => this.#end(id, holder)));
    const failed = ended.filter(({ status }) => status === "rejected").length;
    if (failed > 0) console.error("sockets of a revoked token could not be ended", { sockets: failed });
  }

  async #end(id: string, { class: holder, name }: ObjectAddress): Promise<void> {
    const object = {
      connection: this.env.ACP_CONNECTION_DO,
      session: this.env.ACP_SESSION_DO,
      workspace: this.env.WORKSPACE_STATE_DO,
    }[holder] as DurableObjectNamespace<SocketHolder>;
    await object.getByName(name).endSocket(id, "token revoked");
    this.#live.remove(id);
  }

  // ---- links ------------------------------------------------------------------------------------------

  share(caller: Caller, { session, workspace, expires, redact }: ShareOrder, hash: string): Share {
    this.#checkSharer(caller);
    this.#tables.create();
    const { subject } = caller;
    const share = this.#shares.add(
      { session, workspace, by_subject: subject, at: Date.now(), expires, redact: Number(redact) },
      hash,
    );
    this.record({ kind: "share.made", subject, workspace, session, detail: { id: share.id, redact } });
    return share;
  }

  shares(caller: Caller): Share[] {
    this.#checkSharer(caller);
    return this.#tables.exist ? this.#shares.list(caller, Date.now()) : [];
  }

  /** Takes a link back, and closes what is open by it. False: there is none for the caller. */
  async unshare(caller: Caller, id: string): Promise<boolean> {
    const share = this.shares(caller).find((one) => one.id === id);
    if (!share) return false;
    this.#shares.remove(id);
    const { session, workspace } = share;
    this.record({ kind: "share.revoked", subject: caller.subject, workspace, session, detail: { id } });
    await this.#endAll("jti", nameOf(id));
    return true;
  }

  sharedWith(hash: string): Caller | undefined {
    return this.#tables.exist ? this.#shares.bearer(this.ctx.id.name ?? "", hash, Date.now()) : undefined;
  }

  #checkSharer({ tenant, scopes }: Caller): void {
    if (tenant !== this.ctx.id.name || !scopes.includes("share")) throw new Error("Not this caller's tenant");
  }

  // ---- audit ------------------------------------------------------------------------------------------

  record(act: Act): void {
    this.#tables.create();
    this.#audit.add(act, Date.now());
  }

  audit(caller: Caller, query: AuditQuery): { entries: AuditEntry[]; next: number | null } {
    this.#checkAdmin(caller);
    return this.#tables.exist ? this.#audit.page(caller, query) : { entries: [], next: null };
  }

  // ---- itself -----------------------------------------------------------------------------------------

  /** The Worker has let nobody else through. */
  #checkAdmin({ tenant, scopes }: Caller): void {
    if (tenant !== this.ctx.id.name || !scopes.includes("workspace:admin"))
      throw new Error("Not this caller's tenant");
  }

  #session(id: string) {
    return sessionObject(this.env, this.ctx.id.name ?? "", id);
  }
}

/** What an object that holds sockets can do about one. */
type SocketHolder = Rpc.DurableObjectBranded & {
  endSocket(id: string, reason: string): Promise<void> | void;
};
