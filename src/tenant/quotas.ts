import { type Caller, isHost } from "../protocol/caller.ts";
import { ErrorCode, type RpcError } from "../protocol/errors.ts";
import { LIMITS } from "../protocol/limits.ts";

/** How many sessions each subject has opened in which hour, as rows. Hours that are over are forgotten. */
export class Openings {
  readonly #sql: SqlStorage;
  #exists = false;

  constructor(sql: SqlStorage) {
    this.#sql = sql;
  }

  /** Counts one more; false: the subject has opened all it may in this hour. */
  count(subject: string, now: number): boolean {
    this.#create();
    const hour = Math.floor(now / HOUR_MS);
    this.#sql.exec("DELETE FROM opening WHERE hour < ?", hour);
    const { sessions } = this.#sql
      .exec<{ sessions: number }>(
        `INSERT INTO opening (subject, hour, sessions) VALUES (?, ?, 1)
         ON CONFLICT (subject, hour) DO UPDATE SET sessions = min(sessions + 1, ?) RETURNING sessions`,
        ...[subject, hour, LIMITS.sessionsPerHour + 1],
      )
      .one();
    return sessions <= LIMITS.sessionsPerHour;
  }

  /** Tenants that were there before this was counted have no such table. */
  #create(): void {
    if (this.#exists) return;
    this.#sql.exec(
      `CREATE TABLE IF NOT EXISTS opening (
         subject TEXT NOT NULL, hour INTEGER NOT NULL, sessions INTEGER NOT NULL, PRIMARY KEY (subject, hour)
       )`,
    );
    this.#exists = true;
  }
}

/** Asks the tenant whether the caller may open one more session, which counts as one. */
export async function mayOpenSession(env: Env, { tenant, subject }: Caller): Promise<RpcError | undefined> {
  if (await env.TENANT_DO.getByName(tenant).countOpening(subject)) return undefined;
  return {
    code: ErrorCode.tooMany,
    message: `One user may open ${LIMITS.sessionsPerHour} sessions an hour`,
    data: { retryAfterMs: HOUR_MS - (Date.now() % HOUR_MS) },
  };
}

/** Whether the caller may open one more socket. Hosts have one for each session they run. */
export async function mayConnect(env: Env, caller: Caller): Promise<boolean> {
  if (isHost(caller)) return true;
  return (await env.TENANT_DO.getByName(caller.tenant).socketsOf(caller.subject)) < LIMITS.socketsPerSubject;
}

const HOUR_MS = 60 * 60 * 1000;
