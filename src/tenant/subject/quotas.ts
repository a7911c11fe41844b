import type { Limits } from "../../protocol/limits.ts";
import type { Allowance, Amounts, Quota } from "../../protocol/rpc.ts";
import { endOf, entries, grantOf, hourOf, limitOf } from "../allowance.ts";

/** How much of its quotas the subject was given in this hour. A row of an earlier hour counts as none. */
export class SubjectQuotas {
  readonly #sql: SqlStorage;
  readonly #limits: Limits;

  constructor(sql: SqlStorage, limits: Limits) {
    this.#sql = sql;
    this.#limits = limits;
  }

  /** Grants of each quota at least the asked amount, or nothing. `connections` is how many the subject has. */
  grant(asked: Amounts, connections: number, now: number): Allowance {
    const hour = hourOf(now);
    const grants = entries(asked).map(([quota, amount]) => {
      const grant = grantOf(this.#left(quota, hour), amount, connections);
      if (grant > 0) this.#give(quota, hour, grant);
      return [quota, grant];
    });
    return { hour, left: Object.fromEntries(grants) };
  }

  /** False: nothing of the quota is left. */
  takeOne(quota: Quota, now: number): boolean {
    const hour = hourOf(now);
    const isLeft = this.#left(quota, hour) >= 1;
    if (isLeft) this.#give(quota, hour, 1);
    return isLeft;
  }

  /** Takes the rest of an allowance back, unless its hour is over. */
  refund({ hour, left }: Allowance, now: number): void {
    if (hourOf(now) !== hour) return;
    for (const [quota, amount] of entries(left))
      this.#sql.exec(
        "UPDATE quota SET given = max(0, given - ?) WHERE quota = ? AND hour = ?",
        ...[amount, quota, hour],
      );
  }

  /** Until when the given amounts count, in milliseconds since the epoch; null if there are none. */
  end(): number | null {
    const { hour } = this.#sql.exec<{ hour: number | null }>("SELECT max(hour) AS hour FROM quota").one();
    return hour === null ? null : endOf(hour);
  }

  /** Takes over what the subject was given before this object counted. Amounts that it has counted itself stay. */
  adopt({ hour, amounts }: { readonly hour: number; readonly amounts: Amounts }): void {
    for (const [quota, amount] of entries(amounts))
      this.#sql.exec(
        `INSERT INTO quota (quota, hour, given) VALUES (?, ?, ?)
         ON CONFLICT (quota) DO UPDATE SET hour = excluded.hour, given = excluded.given WHERE hour < excluded.hour`,
        ...[quota, hour, amount],
      );
  }

  #left(quota: Quota, hour: number): number {
    const [row] = this.#sql
      .exec<{ given: number }>("SELECT given FROM quota WHERE quota = ? AND hour = ?", quota, hour)
      .toArray();
    return limitOf(this.#limits, quota) - (row?.given ?? 0);
  }

  #give(quota: Quota, hour: number, amount: number): void {
    this.#sql.exec(
      `INSERT INTO quota (quota, hour, given) VALUES (?, ?, ?)
       ON CONFLICT (quota) DO UPDATE SET
         given = excluded.given + CASE hour WHEN excluded.hour THEN given ELSE 0 END, hour = excluded.hour`,
      ...[quota, hour, amount],
    );
  }
}
