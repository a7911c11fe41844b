import { DurableObject } from "cloudflare:workers";
import { Deadlines } from "../../durable/deadlines.ts";
import { callObject } from "../../durable/object-call.ts";
import { tenantObject } from "../../durable/objects.ts";
import { Tables } from "../../durable/schema.ts";
import { type Limits, readLimits } from "../../protocol/limits.ts";
import type { Allowance, Amounts, RevocableToken, SocketRegistration } from "../../protocol/rpc.ts";
import type {
  EntryResult,
  SubjectOrder,
  SubjectReach,
  SubjectRevocations,
  SubjectToken,
} from "../../protocol/subject-rpc.ts";
import { endOf, hourOf } from "../allowance.ts";
import { isBearer } from "../storage/shares.ts";
import { SubjectEnforcement } from "./enforcement.ts";
import { SubjectQuotas } from "./quotas.ts";
import { CoveringRevocations } from "./revocations.ts";
import { SUBJECT_SCHEMA } from "./schema.ts";
import { SocketReview } from "./socket-review.ts";
import { SubjectSockets } from "./sockets.ts";
import { isInContact, noteContact, noteSilence } from "./tenant-contact.ts";
import { SubjectTokens } from "./tokens.ts";

/** The tenant and the name of the subject. Alarms carry neither, and the runtime knows no long names. */
type Identity = { readonly tenant: string; readonly subject: string };

/**
 * One person, program or host of a tenant, or the bearers of one share: the sockets that are open in the subject's name,
 * its quotas of this hour, and the revocations that cover the subject and its tokens. The tenant adds each token to its
 * list once, when the token is first met here; from then on it reports every revocation, so checking a token asks nobody.
 */
export class SubjectState extends DurableObject<Env> {
  readonly #limits: Limits;
  readonly #tables: Tables;
  readonly #sockets: SubjectSockets;
  readonly #tokens: SubjectTokens;
  readonly #revocations: CoveringRevocations;
  readonly #quotas: SubjectQuotas;
  readonly #enforcement: SubjectEnforcement;
  readonly #review: SocketReview;
  readonly #deadlines: Deadlines<"enforcement" | "expiry" | "note">;
  /** Tokens that the tenant is being asked about: many clients with one new token cost one call. */
  readonly #asking = new Map<string, Promise<boolean>>();

  constructor(ctx: DurableObjectState, env: Env) {
    super(ctx, env);
    const { sql } = ctx.storage;
    this.#limits = readLimits(env.LIMITS);
    this.#tables = new Tables(ctx.storage, SUBJECT_SCHEMA);
    this.#sockets = new SubjectSockets(sql);
    this.#tokens = new SubjectTokens(sql);
    this.#revocations = new CoveringRevocations(ctx.storage);
    this.#quotas = new SubjectQuotas(sql, this.#limits);
    this.#review = new SocketReview(env, this.#sockets);
    this.#deadlines = new Deadlines(ctx.storage);
    this.#enforcement = new SubjectEnforcement({
      ...{ env, sockets: this.#sockets, tokens: this.#tokens, deadlines: this.#deadlines },
      identity: () => this.#identity,
    });
  }

  // ---- tokens -----------------------------------------------------------------------------------------

  /** Whether the token may be used. Throws if that cannot be found out now. */
  isRevoked(token: SubjectToken): Promise<boolean> {
    return this.#isRevoked(token);
  }

  async #isRevoked(token: SubjectToken): Promise<boolean> {
    const isValid = await this.#isKnownOrNoted(token);
    return !isValid || this.#isCovered(token);
  }

  async #isKnownOrNoted(token: SubjectToken): Promise<boolean> {
    // The link of a share may be removed, and its maker revoked: only the tenant knows.
    const isKnown = !isBearer(token.subject) && this.#tables.exist && this.#tokens.has(token);
    if (isKnown && isInContact(token.tenant)) return true;
    const key = JSON.stringify([token.jti, token.workspace, token.expires]);
    const asking = this.#asking.get(key) ?? this.#note(token, isKnown ? CONTACT_MS : undefined);
    this.#asking.set(key, asking);
    try {
      return await asking;
    } catch (error) {
      // A tenant that does not respond has not revoked anything (I11).
      if (!isKnown) throw error;
      console.warn("tenant not asked about a known token", { error: String(error) });
      noteSilence(token.tenant);
      return true;
    } finally {
      this.#asking.delete(key);
    }
  }

  /** False: the link of a share's bearer works no more. */
  async #note(token: SubjectToken, timeoutMs?: number): Promise<boolean> {
    const tenant = () => tenantObject(this.env, token.tenant);
    try {
      const { isValid, given, isReporting, ...list } = await callObject(
        tenant,
        (object) => object.noteToken(token),
        {
          timeoutMs,
        },
      );
      if (!isReporting) noteContact(token.tenant);
      if (isValid) this.#put(token, list);
      if (isValid && given) this.#quotas.adopt(given);
      return isValid;
    } catch (error) {
      if (!isOfPreviousRelease(error)) throw error;
      // Removable one release later. The tenant answers for now, and takes the token into its list when it is replaced.
      if (await callObject(tenant, (object) => object.isRevoked(token), { timeoutMs })) return false;
      this.#put(token);
      return true;
    }
  }

  #put(token: SubjectToken, list?: SubjectRevocations): void {
    this.#create(token);
    this.ctx.storage.transactionSync(() => {
      if (list) this.#revocations.replace(list);
      this.#tokens.removeExpired(Date.now());
      if (!list || !this.#tokens.has(token)) this.#tokens.put(token, list !== undefined);
    });
    this.#deadlines.setUnlessSet("expiry", this.#tokens.lastEnd() ?? Date.now());
    if (!list) this.#deadlines.setUnlessSet("note", Date.now() + NOTE_MS);
  }

  /** Asks again for the tokens that the tenant could not note, and ends what was revoked meanwhile. */
  async #noteRest(): Promise<void> {
    const { tenant, subject } = this.#identity;
    for (const rest of this.#tokens.unnoted()) {
      const token = { ...rest, tenant, subject };
      const { isValid, ...list } = await callObject(
        () => tenantObject(this.env, tenant),
        (object) => object.noteToken(token),
      );
      this.#tokens.put(rest, true);
      const waitMs = this.#limits.revocationWaitMs;
      await this.applyRevocations({ tenant, subject, endsAll: !isValid, waitMs, ...list });
    }
  }

  #isCovered(token: Omit<RevocableToken, "subject">): boolean {
    return this.#revocations.covers(token, Date.now());
  }

  /**
   * Takes the tenant's revocations over. Returns after everything that they cover has ended, or has had time to end.
   * The tenant reports to an object that has never met a token as well: the object then has nothing to end. While the
   * tenant's answer about a first token is under way, the report may overtake it, and counts.
   */
  async applyRevocations({ tenant, subject, endsAll, waitMs, ...list }: SubjectOrder): Promise<SubjectReach> {
    if (!this.#tables.exist && this.#asking.size === 0) return { sockets: 0, hosts: 0, unconfirmed: 0 };
    this.#create({ tenant, subject });
    this.#deadlines.setUnlessSet("expiry", Date.now() + NOTE_MS);
    const { sockets, hosts } = this.ctx.storage.transactionSync(() => {
      const before = this.#tokens.ofHosts().filter((token) => !this.#isCovered(token));
      this.#revocations.replace(list);
      const ending = before.filter((token) => endsAll || this.#isCovered(token));
      this.#tokens.markEnding(ending);
      return {
        sockets: this.#sockets.markEnding((token) => endsAll === true || this.#isCovered(token)),
        hosts: ending,
      };
    });
    return this.#enforcement.carryOut(sockets, hosts, waitMs);
  }

  // ---- sockets ----------------------------------------------------------------------------------------

  /**
   * Lets a socket in, before it opens: its token is checked, its place is taken, and the first allowance is granted, in
   * one call. Entering again renews the lease, or replaces the token. Throws if the token cannot be checked now.
   */
  async enter(registration: SocketRegistration, asked?: Amounts): Promise<EntryResult> {
    // Others who wait for the same review may take the places that it frees.
    while (this.#isFullFor(registration.id) && (await this.#review.run(registration.tenant)));
    if (await this.#isRevoked(registration)) return { result: "revoked" };
    const now = Date.now();
    this.#sockets.removeLapsed(now);
    const { id, expires } = registration;
    if (this.#isFullFor(id)) return { result: "too-many" };
    const leaseUntil = Math.min(now + this.#limits.socketLeaseMs, (expires + EXTRA_SECONDS) * 1000);
    this.#sockets.put(registration, leaseUntil);
    const allowance = asked && this.#quotas.grant(asked, this.#sockets.count(now), now);
    return { result: "registered", leaseUntil, ...(allowance && { allowance }) };
  }

  #isFullFor(id: string): boolean {
    const now = Date.now();
    if (!this.#tables.exist || this.#sockets.has(id, now)) return false;
    return this.#sockets.count(now) >= this.#limits.socketsPerSubject;
  }

  /**
   * The socket is closed, or did not open. `unused` is the unspent rest of its allowance. The call may come twice, and
   * after the socket has entered again: it ends the named `entry` only, and pays back once.
   */
  leave(id: string, unused?: Allowance, entry?: string): void {
    if (!this.#tables.exist) return;
    const isRemoved = this.#sockets.remove(id, entry ?? null);
    if (isRemoved && unused) this.#quotas.refund(unused, Date.now());
  }

  countSockets(): number {
    return this.#tables.exist ? this.#sockets.count(Date.now()) : 0;
  }

  // ---- quotas -----------------------------------------------------------------------------------------

  /** False: the subject may open no more sessions in this hour. */
  takeSessionQuota(): boolean {
    const now = Date.now();
    this.#createForHour(now);
    return this.#quotas.takeOne("sessions", now);
  }

  /** A part of the subject's quotas for one connection to spend. It counts as spent. */
  grantAllowance(asked: Amounts): Allowance {
    const now = Date.now();
    this.#createForHour(now);
    return this.#quotas.grant(asked, this.#sockets.count(now), now);
  }

  refundAllowance(unused: Allowance): void {
    if (this.#tables.exist) this.#quotas.refund(unused, Date.now());
  }

  // ---- itself -----------------------------------------------------------------------------------------

  override async alarm(): Promise<void> {
    if (!this.#tables.exist) return;
    await this.#deadlines.run(Date.now(), {
      enforcement: () => this.#enforcement.retry(this.#limits.revocationWaitMs),
      expiry: () => this.#expire(),
      note: () => this.#noteRest(),
    });
  }

  /**
   * Nothing of a subject stays after its last token has expired, and the hour of its quotas is over: no socket outlives
   * its token.
   */
  async #expire(): Promise<void> {
    const now = Date.now();
    this.#tokens.removeExpired(now);
    this.#sockets.removeLapsed(now);
    const next = Math.max(this.#tokens.lastEnd() ?? 0, this.#quotas.end() ?? 0);
    if (next > now) return this.#deadlines.set("expiry", next);
    if (this.#asking.size > 0) return this.#deadlines.set("expiry", now + NOTE_MS);
    this.#deadlines.forget();
    this.#tables.forget();
    await this.ctx.storage.deleteAll();
  }

  #createForHour(now: number): void {
    this.#tables.create();
    this.#deadlines.setUnlessSet("expiry", endOf(hourOf(now)));
  }

  #create({ tenant, subject }: Identity): void {
    if (this.#tables.exist && this.ctx.storage.kv.get(IDENTITY) !== undefined) return;
    this.#tables.create();
    this.ctx.storage.kv.put<Identity>(IDENTITY, { tenant, subject });
  }

  get #identity(): Identity {
    return this.ctx.storage.kv.get<Identity>(IDENTITY) ?? { tenant: "", subject: "" };
  }
}

const IDENTITY = "identity";

/** The runtime's answer for a method that the other object's build does not have. */
function isOfPreviousRelease(error: unknown): boolean {
  return String(error).includes("does not implement the method");
}

/** How long a check of a known token waits for the tenant. */
const CONTACT_MS = 2_000;

/** Objects keep their code for some minutes after a deployment. */
const NOTE_MS = 60_000;

/** A socket closes some time after its token has expired, and must be found until then. */
const EXTRA_SECONDS = 300;
