import { callObject } from "../durable/object-call.ts";
import { jurisdictionRecord, unrestrictedTenant } from "../durable/objects.ts";
import { JURISDICTION_CHANGED } from "../durable/regions.ts";
import type { Tables } from "../durable/schema.ts";

type JurisdictionRecord = ReturnType<typeof jurisdictionRecord>;

/** The jurisdiction of a tenant's objects; null for objects without one. */
export type Jurisdiction = string | null;

/**
 * Makes sure that a tenant is used in one jurisdiction only. In another one all of its objects would be empty: a
 * revoked token would be valid again. The jurisdiction is on record in an object that has none itself, so it is found
 * whatever the configuration says now.
 */
export class JurisdictionClaim {
  readonly #ctx: DurableObjectState;
  readonly #env: Env;
  readonly #tables: Tables;

  constructor(ctx: DurableObjectState, env: Env, tables: Tables) {
    this.#ctx = ctx;
    this.#env = env;
    this.#tables = tables;
  }

  /**
   * Refuses all calls of a tenant that is in use elsewhere. A tenant that has stored nothing leaves no record. A record
   * that does not respond says nothing, and is asked again when the object starts anew.
   */
  check(): void {
    if (this.#isRecord || this.#isClaimed) return;
    void this.#ctx.blockConcurrencyWhile(async () => {
      const recorded = await (this.#tables.exist ? this.#claim() : this.#recordedElsewhere());
      if (recorded !== undefined) this.#compare(recorded);
    });
  }

  /** Puts the jurisdiction on record. Called once the tenant has stored something. */
  async claim(): Promise<void> {
    if (!this.#isRecord && !this.#isClaimed) await this.#claim();
  }

  async #claim(): Promise<Jurisdiction | undefined> {
    const recorded = await this.#ask((record) => record.claimJurisdiction(this.#own));
    if (recorded === this.#own) this.#ctx.storage.kv.put(CLAIMED, true);
    return recorded;
  }

  #recordedElsewhere(): Promise<Jurisdiction | undefined> {
    return this.#ask((record) => record.recordedJurisdiction(this.#own));
  }

  /** All calls to the tenant wait meanwhile. */
  async #ask(
    question: (record: JurisdictionRecord) => Promise<Jurisdiction | undefined>,
  ): Promise<Jurisdiction | undefined> {
    try {
      return await callObject(() => jurisdictionRecord(this.#env, this.#tenant), question, {
        timeoutMs: ANSWER_MS,
      });
    } catch (error) {
      console.warn("jurisdiction not confirmed", { tenant: this.#tenant, error: String(error) });
      return undefined;
    }
  }

  // ---- in the object that has the record --------------------------------------------------------------

  /** The jurisdiction on record, for a tenant that asks from `asking`. */
  async recorded(asking: Jurisdiction): Promise<Jurisdiction | undefined> {
    const recorded = this.#ctx.storage.kv.get<Jurisdiction>(RECORD);
    if (recorded !== undefined || asking === null) return recorded;
    // A release without records had no jurisdictions either.
    return (await unrestrictedTenant(this.#env, this.#tenant).isInUse()) ? null : undefined;
  }

  async record(asking: Jurisdiction): Promise<Jurisdiction> {
    const recorded = await this.recorded(asking);
    const { kv } = this.#ctx.storage;
    // Another call may have made the record meanwhile. A record of null says that there is no jurisdiction.
    const meanwhile = kv.get<Jurisdiction>(RECORD);
    const valid = meanwhile === undefined ? recorded : meanwhile;
    if (valid !== undefined) return valid;
    kv.put(RECORD, asking);
    return asking;
  }

  #compare(recorded: Jurisdiction): void {
    if (recorded === this.#own) return;
    const message = `${JURISDICTION_CHANGED}: the objects of ${this.#tenant} are ${where(recorded)}, and REGIONS says ${where(this.#own)}`;
    console.error(message);
    throw new Error(message);
  }

  get #own(): Jurisdiction {
    return this.#ctx.id.jurisdiction ?? null;
  }

  get #isClaimed(): boolean {
    return this.#ctx.storage.kv.get(CLAIMED) === true;
  }

  get #isRecord(): boolean {
    return this.#ctx.id.name?.includes("/") === true;
  }

  get #tenant(): string {
    return this.#ctx.id.name?.split("/")[0] ?? "";
  }
}

function where(jurisdiction: Jurisdiction): string {
  return jurisdiction === null ? "in no jurisdiction" : `in ${jurisdiction}`;
}

/** The platform resets an object that blocks its calls for 30 seconds. */
const ANSWER_MS = 5000;

const RECORD = "jurisdiction";
const CLAIMED = "jurisdiction-claimed";
