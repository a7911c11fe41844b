import { Deadlines } from "../durable/deadlines.ts";
import { Tables } from "../durable/schema.ts";
import type { Caller, Scope } from "../protocol/caller.ts";
import { isoTime } from "../protocol/iso-time.ts";
import { type Limits, readLimits } from "../protocol/limits.ts";
import { type Maker, makerOf } from "../protocol/maker.ts";
import { accepted, type Refusal, type Result, refused } from "../protocol/refusal.ts";
import type { ReindexProgress } from "../protocol/reindex.ts";
import type { Share } from "../protocol/rest.ts";
import type { AuditEntry, CreatedRevocation, Revocation } from "../protocol/rest-tenant.ts";
import type {
  AnswerLinkRegistration,
  RevocableToken,
  RevocationOrder,
  ShareOrder,
  WebhookRegistration,
} from "../protocol/rpc.ts";
import type { NotedToken, SubjectToken } from "../protocol/subject-rpc.ts";
import type { Act } from "./client/audit.ts";
import { EarlierCalls, type EarlierParts } from "./earlier-calls.ts";
import { Enforcement } from "./enforcement.ts";
import { type Jurisdiction, JurisdictionClaim } from "./jurisdiction-claim.ts";
import { TenantReindex } from "./reindex.ts";
import { RevocationOrders, UNKNOWN_REVOCATION } from "./revocation-orders.ts";
import { TENANT_SCHEMA } from "./schema.ts";
import { AnswerLinkMakers } from "./storage/answer-link-makers.ts";
import { AuditLog, type AuditQuery } from "./storage/audit-log.ts";
import { earlierQuotas } from "./storage/earlier-quotas.ts";
import { EarlierSockets } from "./storage/earlier-sockets.ts";
import { Logouts } from "./storage/logouts.ts";
import { Revocations } from "./storage/revocations.ts";
import { isBearer, Shares } from "./storage/shares.ts";
import { TokenList } from "./storage/token-list.ts";
import { UnconfirmedOrders } from "./storage/unconfirmed-orders.ts";
import { WebhookMakers } from "./storage/webhook-makers.ts";

/**
 * One tenant: the list of its tokens, its revocations, its share links, and its audit log. The sockets and quotas of
 * each subject are in an object of their own, `subject/subject-state.ts`.
 *
 * Other rooms call it through `tenant/client/`; `tenant/storage/` runs in this object only.
 */
export class TenantState extends EarlierCalls {
  protected readonly earlier: EarlierParts;
  readonly #limits: Limits;
  readonly #tables: Tables;
  readonly #jurisdiction: JurisdictionClaim;
  readonly #revocations: Revocations;
  readonly #tokens: TokenList;
  readonly #audit: AuditLog;
  readonly #shares: Shares;
  readonly #logouts: Logouts;
  readonly #answerLinks: AnswerLinkMakers;
  readonly #webhooks: WebhookMakers;
  readonly #enforcement: Enforcement;
  readonly #orders: RevocationOrders;
  readonly #deadlines: Deadlines<"revocations" | "enforcement" | "reindex">;
  readonly #reindex: TenantReindex;

  constructor(ctx: DurableObjectState, env: Env) {
    super(ctx, env);
    const { sql } = ctx.storage;
    this.#limits = readLimits(env.LIMITS);
    this.#tables = new Tables(ctx.storage, TENANT_SCHEMA, () => ctx.waitUntil(this.#jurisdiction.claim()));
    this.#jurisdiction = new JurisdictionClaim(ctx, env, this.#tables);
    this.#jurisdiction.check();
    this.#revocations = new Revocations(sql, this.#limits);
    this.#tokens = new TokenList(ctx.storage);
    this.#audit = new AuditLog(sql, this.#limits);
    this.#logouts = new Logouts(sql);
    this.#shares = new Shares(sql, this.#limits);
    this.#answerLinks = new AnswerLinkMakers(sql, this.#limits);
    this.#webhooks = new WebhookMakers(sql);
    this.#deadlines = new Deadlines(ctx.storage);
    const earlierSockets = new EarlierSockets(sql);
    this.earlier = {
      sockets: earlierSockets,
      createTables: () => this.#tables.create(),
      hasTables: () => this.#tables.exist,
      isRefused: (socket) => this.isRevoked(socket) || !this.#isOfValidShare(socket.subject),
    };
    this.#reindex = new TenantReindex({
      ...{ env, kv: ctx.storage.kv, tenant: () => this.tenantName, deadlines: this.#deadlines },
    });
    this.#enforcement = new Enforcement({
      ...{ env, tenant: () => this.tenantName, limits: this.#limits, deadlines: this.#deadlines },
      ...{ tokens: this.#tokens, orders: new UnconfirmedOrders(sql), earlierSockets, shares: this.#shares },
      ...{ answerLinks: this.#answerLinks, webhooks: this.#webhooks },
      isOfValidShare: (subject) => this.#isOfValidShare(subject),
    });
    if (this.#tables.exist && this.#enforcement.resume()) this.#tokens.markChanged();
    this.#orders = new RevocationOrders({
      ...{ env, storage: ctx.storage, tenant: () => this.tenantName, limits: this.#limits },
      ...{ revocations: this.#revocations, tokens: this.#tokens },
      ...{ deadlines: this.#deadlines, enforcement: this.#enforcement },
      record: (act) => this.recordAct(act),
    });
  }

  // ---- jurisdiction -----------------------------------------------------------------------------------

  isInUse(): boolean {
    return this.#tables.exist;
  }

  /** The jurisdiction on record; undefined if the tenant has stored nothing yet. */
  recordedJurisdiction(asking: Jurisdiction): Promise<Jurisdiction | undefined> {
    return this.#jurisdiction.recorded(asking);
  }

  /** Puts the tenant's jurisdiction on record unless one is there already, and returns the recorded one. */
  claimJurisdiction(asking: Jurisdiction): Promise<Jurisdiction> {
    return this.#jurisdiction.record(asking);
  }

  // ---- tokens and sockets -----------------------------------------------------------------------------

  isRevoked(token: RevocableToken): boolean {
    return this.#tables.exist && (this.#isCovered(token) || this.#logouts.has(token.jti));
  }

  /** Whether a revocation covers the maker of a thing. A logout ends a token, and not what was made with it. */
  isMakerRevoked(maker: Maker): boolean {
    return this.#tables.exist && this.#isCovered(maker);
  }

  /**
   * For the object of a subject that meets a token for the first time. The token is added to the tenant's list, so that
   * the object learns of every later revocation.
   */
  noteToken(token: SubjectToken): NotedToken {
    const { subject } = token;
    if (!this.#isOfValidShare(subject)) return { isValid: false, revision: 0, revocations: [] };
    this.#tables.create();
    this.#tokens.add(token, Date.now());
    const given = earlierQuotas(this.ctx.storage.sql, subject, Date.now());
    const isReporting = this.#enforcement.isReporting && { isReporting: true as const };
    return { isValid: true, ...this.#tokens.revocationsOf(subject), ...(given && { given }), ...isReporting };
  }

  /** Whether the link of a share's bearer still works; true for every other subject. */
  #isOfValidShare(subject: string): boolean {
    if (!isBearer(subject)) return true;
    if (!this.#tables.exist) return false;
    const share = this.#shares.withBearer(this.tenantName, subject, Date.now());
    return share !== undefined && !this.#isCovered(share.maker);
  }

  #isCovered(token: RevocableToken): boolean {
    return this.#revocations.covers(token, Date.now());
  }

  /** Ends the caller's token. Returns after all sockets with the token are closed. */
  async logOut({ jti, expires }: Caller): Promise<void> {
    if (jti === undefined) return;
    this.#tables.create();
    this.#endToken(jti, expires);
    await this.#enforcement.endToken(jti);
  }

  #endToken(jti: string, expires: number): void {
    this.#logouts.add(jti, expires, Date.now());
    this.#tokens.markChanged();
  }

  // ---- revocations ------------------------------------------------------------------------------------

  /**
   * Returns after everything that the revocation reaches has ended, or has had time to end. An administrator of
   * workspaces revokes sessions there, and tokens that are valid in one of these workspaces alone.
   */
  async revoke(caller: Caller, order: RevocationOrder): Promise<Result<CreatedRevocation>> {
    this.#checkScope(caller, "workspace:admin", "tenant:admin");
    this.#tables.create();
    return this.#orders.revoke(caller, order);
  }

  async liftRevocation(caller: Caller, id: string): Promise<Result<undefined>> {
    this.#checkScope(caller, "workspace:admin", "tenant:admin");
    return this.#tables.exist ? this.#orders.lift(caller, id) : refused(UNKNOWN_REVOCATION);
  }

  /** The revocations in workspaces that the caller administers; for an administrator of the tenant all of them. */
  listRevocations(caller: Caller): Revocation[] {
    this.#checkScope(caller, "workspace:admin", "tenant:admin");
    return this.#tables.exist ? this.#orders.list(caller) : [];
  }

  /** For a workspace: the container has ended to which the workspace has issued these tokens. */
  async endHostTokens(tokens: readonly { readonly jti: string; readonly expires: number }[]): Promise<void> {
    this.#tables.create();
    for (const { jti, expires } of tokens) this.#endToken(jti, Math.ceil(expires / 1000));
    for (const { jti } of tokens) await this.#enforcement.endToken(jti);
  }

  override async alarm(): Promise<void> {
    if (!this.#tables.exist) return;
    this.#orders.setDeadline();
    await this.#deadlines.run(Date.now(), {
      revocations: () => this.#orders.endDue(),
      enforcement: () => this.#enforcement.retry(),
      reindex: () => this.#reindex.proceed(),
    });
  }

  // ---- the index --------------------------------------------------------------------------------------

  /** A workspace of the tenant says its name, once. */
  enrollWorkspace(name: string): void {
    this.#reindex.enroll(name);
  }

  /** Has all workspaces write their index anew, in steps that follow. */
  startReindex(caller: Caller): ReindexProgress {
    this.#checkScope(caller, "tenant:admin");
    this.#tables.create();
    return this.#reindex.start();
  }

  reindexProgress(caller: Caller): ReindexProgress {
    this.#checkScope(caller, "tenant:admin");
    return this.#reindex.progress;
  }

  // ---- share links ------------------------------------------------------------------------------------

  createShare(caller: Caller, order: ShareOrder, hash: string): Result<Share> {
    this.#checkScope(caller, "share");
    const maker = makerOf(caller);
    if (this.isRevoked(maker)) return refused(REVOKED);
    this.#tables.create();
    const { subject } = caller;
    const { session, workspace, redact } = order;
    const made = this.#shares.add(order, maker, Date.now(), hash);
    if (made.ok)
      this.recordAct({
        ...{ kind: "share.made", subject, workspace, session },
        detail: { id: made.value.id, redact },
      });
    return made;
  }

  listShares(caller: Caller): Share[] {
    this.#checkScope(caller, "share");
    if (!this.#tables.exist) return [];
    return this.#shares.list(caller, Date.now(), (maker) => this.#isCovered(maker));
  }

  /** Returns after all sockets that the link opened are closed. */
  async removeShare(caller: Caller, id: string): Promise<Result<undefined>> {
    const share = this.listShares(caller).find((one) => one.id === id);
    if (!share) return refused({ reason: "not-found", message: "Unknown share" });
    this.#shares.remove(id);
    const { session, workspace } = share;
    this.recordAct({ kind: "share.revoked", subject: caller.subject, workspace, session, detail: { id } });
    await this.#enforcement.endBearers(id);
    return accepted();
  }

  /** The caller that presents a link; undefined for an unknown or expired link, and while its maker is revoked. */
  shareBearer(hash: string): Caller | undefined {
    if (!this.#tables.exist) return undefined;
    const share = this.#shares.withHash(this.tenantName, hash, Date.now());
    return share && !this.#isCovered(share.maker) ? share.bearer : undefined;
  }

  // ---- answer links and webhooks ----------------------------------------------------------------------

  /** Notes the maker of answer links. Refuses when a limit is reached. */
  registerAnswerLinks(caller: Caller, registration: AnswerLinkRegistration): Result<undefined> {
    this.#checkScope(caller, "share");
    const maker = makerOf(caller);
    if (this.isRevoked(maker)) return refused(REVOKED);
    this.#tables.create();
    const noted = this.#answerLinks.add(registration, maker, Date.now());
    if (!noted.ok) return noted;
    const { id, session, workspace, seq: request, expires } = registration;
    const detail = { id, request, expiresAt: isoTime(expires) };
    this.recordAct({ kind: "link.made", subject: caller.subject, workspace, session, detail });
    return noted;
  }

  registerWebhook(registration: WebhookRegistration): Result<undefined> {
    if (this.isRevoked(registration.maker)) return refused(REVOKED);
    this.#tables.create();
    this.#webhooks.put(registration);
    return accepted();
  }

  unregisterWebhook(id: string): void {
    if (this.#tables.exist) this.#webhooks.remove(id);
  }

  /**
   * Whether the maker of each webhook is revoked. The workspace knows its webhooks: their registrations are renewed, so
   * that the end of a revocation finds them.
   */
  checkWebhooks(
    workspace: string,
    webhooks: readonly { readonly id: string; readonly maker: Maker }[],
  ): boolean[] {
    this.#tables.create();
    for (const { id, maker } of webhooks) this.#webhooks.put({ id, workspace, maker });
    return webhooks.map(({ maker }) => this.#isCovered(maker));
  }

  // ---- audit ------------------------------------------------------------------------------------------

  recordAct(act: Act): void {
    this.#tables.create();
    this.#audit.add(act, Date.now());
  }

  auditPage(caller: Caller, query: AuditQuery): { entries: AuditEntry[]; next: number | null } {
    this.#checkScope(caller, "workspace:admin", "tenant:admin");
    return this.#tables.exist ? this.#audit.page(caller, query) : { entries: [], next: null };
  }

  // ---- itself -----------------------------------------------------------------------------------------

  /** The Worker lets no other caller through; a caller without the scope is a fault. */
  #checkScope({ tenant, scopes }: Caller, ...oneOf: readonly Scope[]): void {
    if (tenant !== this.ctx.id.name || !oneOf.some((scope) => scopes.includes(scope)))
      throw new Error("Not this caller's tenant");
  }

  protected get tenantName(): string {
    return this.ctx.id.name ?? "";
  }
}

/** A Worker accepts a token for a moment after its revocation, by a cached answer. Nothing that lasts is made with it. */
const REVOKED: Refusal = { reason: "forbidden", message: "The token is revoked" };
