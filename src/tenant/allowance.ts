import type { Limits } from "../protocol/limits.ts";
import type { Allowance, Amounts, Quota } from "../protocol/rpc.ts";

/** The arithmetic of allowances, which the subjects' objects and the connections that spend them share. */

type QuotaLimits = Pick<Limits, "sessionsPerHour" | "promptsPerHour" | "charsPerHour">;

/** How much of a quota a subject has per hour. The reserve is taken from the characters. */
export function limitOf(limits: QuotaLimits, quota: Quota): number {
  const reserve = Math.floor(limits.charsPerHour / RESERVE_PARTS);
  switch (quota) {
    case "sessions":
      return limits.sessionsPerHour;
    case "prompts":
      return limits.promptsPerHour;
    case "chars":
      return limits.charsPerHour - reserve;
    case "reserve":
      return reserve;
  }
}

/**
 * One sixty-fourth of the characters is reserved for small messages such as cancellations and permission answers, so
 * that a subject without quota can still stop its agents. Of one gibibyte that is 16 MiB, 100,000 × `session/cancel`.
 */
const RESERVE_PARTS = 64;

/**
 * How much of the remaining quota a connection gets that asks for `asked`: at least that, or nothing if less is left.
 * The grant is raised to 1 % of the rest divided by the subject's connections: few messages need a round trip to the
 * subject's object, and little quota is stranded in idle connections.
 */
export function grantOf(left: number, asked: number, connections: number): number {
  return asked > left ? 0 : Math.max(asked, Math.floor(left / (GRANT_PARTS * Math.max(1, connections))));
}

/**
 * Idle connections that came one after another hold at most 1/100 + 1/200 + 1/300 + … of the limit: a thousand of
 * them hold a thirteenth. A subject that spends its whole quota asks some hundred times.
 */
const GRANT_PARTS = 100;

/** The allowance after the cost; undefined if it is too small, or of another hour. */
export function spend(allowance: Allowance | undefined, cost: Amounts, now: number): Allowance | undefined {
  return allowance?.hour === hourOf(now) ? subtract(allowance, cost) : undefined;
}

/** The allowance after the cost; undefined if it is too small. The hour is not compared: the clock of the subject's object decides it. */
export function subtract(allowance: Allowance, cost: Amounts): Allowance | undefined {
  const left = { ...allowance.left };
  for (const [quota, amount] of entries(cost)) {
    const rest = (left[quota] ?? 0) - amount;
    if (rest < 0) return undefined;
    left[quota] = rest;
  }
  return { ...allowance, left };
}

/**
 * The amounts to ask the subject's object for before the cost can be paid. A quota that the allowance does not hold yet is
 * among them even if the cost needs nothing of it.
 */
export function missing(allowance: Allowance | undefined, cost: Amounts, now: number): Amounts {
  const held = allowance?.hour === hourOf(now) ? allowance.left : {};
  const lacking = entries(cost).filter(([quota, amount]) => amount > (held[quota] ?? -1));
  return Object.fromEntries(lacking.map(([quota, amount]) => [quota, amount - (held[quota] ?? 0)]));
}

export function add(allowance: Allowance | undefined, granted: Allowance): Allowance {
  if (allowance?.hour !== granted.hour) return granted;
  const left = { ...allowance.left };
  for (const [quota, amount] of entries(granted.left)) left[quota] = (left[quota] ?? 0) + amount;
  return { ...granted, left };
}

export function hourOf(now: number): number {
  return Math.floor(now / HOUR_MS);
}

/** When the hour is over, in milliseconds since the epoch. */
export function endOf(hour: number): number {
  return (hour + 1) * HOUR_MS;
}

/** Until the next hour, in which every subject has its whole quota again. */
export function retryAfterMs(now: number): number {
  return HOUR_MS - (now % HOUR_MS);
}

export function entries(amounts: Amounts): [Quota, number][] {
  return Object.entries(amounts) as [Quota, number][];
}

const HOUR_MS = 60 * 60 * 1000;
