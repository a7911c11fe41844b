import { type Caller, isHost } from "../protocol/caller.ts";
import { ErrorCode, type RpcError } from "../protocol/errors.ts";
import { LIMITS } from "../protocol/limits.ts";
import type { Allowance, Amounts, Quota } from "../protocol/rpc.ts";
import { entries, grantOf, hourOf, limitOf, retryAfterMs } from "./allowance.ts";

/** What each subject was given of its quotas in this hour, as rows. Hours that are over are forgotten. */
export class Quotas {
  readonly #sql: SqlStorage;

  constructor(sql: SqlStorage) {
    this.#sql = sql;
  }

  /** Gives of each quota at least what is asked for, or nothing, to one of so many connections of the subject. */
  grant(subject: string, asked: Amounts, connections: number, now: number): Allowance {
    const hour = this.#begin(now);
    const grants = entries(asked).map(([quota, amount]) => {
      const grant = grantOf(this.#left(subject, quota), amount, connections);
      if (grant > 0) this.#give(subject, quota, hour, grant);
      return [quota, grant];
    });
    return { hour, left: Object.fromEntries(grants) };
  }

  /** Exactly one; false: none is left. */
  takeOne(subject: string, quota: Quota, now: number): boolean {
    const hour = this.#begin(now);
    const isLeft = this.#left(subject, quota) >= 1;
    if (isLeft) this.#give(subject, quota, hour, 1);
    return isLeft;
  }

  /** What was not used is there for others, as long as the hour lasts. */
  giveBack(subject: string, { hour, left }: Allowance, now: number): void {
    if (this.#begin(now) !== hour) return;
    for (const [quota, amount] of entries(left)) this.#give(subject, quota, hour, -amount);
  }

  #left(subject: string, quota: Quota): number {
    const [row] = this.#sql
      .exec<{ given: number }>("SELECT given FROM quota WHERE subject = ? AND quota = ?", subject, quota)
      .toArray();
    return limitOf(quota) - (row?.given ?? 0);
  }

  #give(subject: string, quota: Quota, hour: number, amount: number): void {
    this.#sql.exec(
      `INSERT INTO quota (subject, quota, hour, given) VALUES (?, ?, ?, ?)
       ON CONFLICT (subject, quota) DO UPDATE SET given = given + excluded.given`,
      ...[subject, quota, hour, amount],
    );
  }

  /** From here on there is only what belongs to this hour, which is returned. */
  #begin(now: number): number {
    const hour = hourOf(now);
    this.#sql.exec("DELETE FROM quota WHERE hour < ?", hour);
    return hour;
  }
}

/** Asks the tenant whether the caller may open one more session, which counts as one. */
export async function mayOpenSession(env: Env, { tenant, subject }: Caller): Promise<Exceeded | undefined> {
  return (await env.TENANT_DO.getByName(tenant).countOpening(subject)) ? undefined : exceeded("sessions");
}

/** Whether the caller may open one more socket. Hosts have one for each session they run. */
export async function mayConnect(env: Env, caller: Caller): Promise<boolean> {
  if (isHost(caller)) return true;
  return (await env.TENANT_DO.getByName(caller.tenant).socketsOf(caller.subject)) < LIMITS.socketsPerSubject;
}

/** What somebody is told who has no more of a quota. */
export type Exceeded = RpcError & { data: { retryAfterMs: number } };

export function exceeded(quota: Quota): Exceeded {
  return {
    code: ErrorCode.tooMany,
    message: `One user may ${inWords(quota)} an hour`,
    data: { retryAfterMs: retryAfterMs(Date.now()) },
  };
}

function inWords(quota: Quota): string {
  switch (quota) {
    case "sessions":
      return `open ${LIMITS.sessionsPerHour} sessions`;
    case "prompts":
      return `send ${LIMITS.promptsPerHour} prompts`;
    default:
      return `send ${LIMITS.charsPerHour} characters`;
  }
}
