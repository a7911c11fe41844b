import type { Limits } from "../../protocol/limits.ts";
import type { Allowance, Amounts, Quota } from "../../protocol/rpc.ts";
import { entries, grantOf, hourOf, limitOf } from "../allowance.ts";

/** How much of its quotas each subject was given in this hour. Rows of earlier hours are deleted. */
export class Quotas {
  readonly #sql: SqlStorage;
  readonly #limits: Limits;

  constructor(sql: SqlStorage, limits: Limits) {
    this.#sql = sql;
    this.#limits = limits;
  }

  /** Grants of each quota at least the asked amount, or nothing. `connections` is how many the subject has. */
  grant(subject: string, asked: Amounts, connections: number, now: number): Allowance {
    const hour = this.#beginHour(now);
    const grants = entries(asked).map(([quota, amount]) => {
      const grant = grantOf(this.#left(subject, quota), amount, connections);
      if (grant > 0) this.#give(subject, quota, hour, grant);
      return [quota, grant];
    });
    return { hour, left: Object.fromEntries(grants) };
  }

  /** False: nothing of the quota is left. */
  takeOne(subject: string, quota: Quota, now: number): boolean {
    const hour = this.#beginHour(now);
    const isLeft = this.#left(subject, quota) >= 1;
    if (isLeft) this.#give(subject, quota, hour, 1);
    return isLeft;
  }

  /** Returns the rest of an allowance, unless its hour is over. */
  refund(subject: string, { hour, left }: Allowance, now: number): void {
    if (this.#beginHour(now) !== hour) return;
    for (const [quota, amount] of entries(left)) this.#give(subject, quota, hour, -amount);
  }

  #left(subject: string, quota: Quota): number {
    const [row] = this.#sql
      .exec<{ given: number }>("SELECT given FROM quota WHERE subject = ? AND quota = ?", subject, quota)
      .toArray();
    return limitOf(this.#limits, quota) - (row?.given ?? 0);
  }

  #give(subject: string, quota: Quota, hour: number, amount: number): void {
    this.#sql.exec(
      `INSERT INTO quota (subject, quota, hour, given) VALUES (?, ?, ?, ?)
       ON CONFLICT (subject, quota) DO UPDATE SET given = given + excluded.given`,
      ...[subject, quota, hour, amount],
    );
  }

  #beginHour(now: number): number {
    const hour = hourOf(now);
    this.#sql.exec("DELETE FROM quota WHERE hour < ?", hour);
    return hour;
  }
}
