import { LIMITS } from "../protocol/limits.ts";
import type { Allowance, Amounts, Quota } from "../protocol/rpc.ts";

/** The limits of an hour. The reserve is a part of the characters, kept for small messages that ask for nothing. */
export function limitOf(quota: Quota): number {
  const reserve = Math.floor(LIMITS.charsPerHour / RESERVE_PARTS);
  switch (quota) {
    case "sessions":
      return LIMITS.sessionsPerHour;
    case "prompts":
      return LIMITS.promptsPerHour;
    case "chars":
      return LIMITS.charsPerHour - reserve;
    case "reserve":
      return reserve;
  }
}

/** Small messages are few and short: of a gibibyte this is 16 MiB, a hundred thousand times `session/cancel`. */
const RESERVE_PARTS = 64;

/**
 * How much of what is left a connection gets that needs `asked` now: nothing less than that, or nothing at all. Some
 * more, so that it does not come back for every message; but so little that what lies unused with all of the
 * subject's connections is never much, and less and less towards the end.
 */
export function grantOf(left: number, asked: number, connections: number): number {
  return asked > left ? 0 : Math.max(asked, Math.floor(left / (GRANT_PARTS * Math.max(1, connections))));
}

/**
 * With one connection after another that is at most 1/100 + 1/200 + 1/300 + … of the limit unused in all: for a
 * thousand of them a thirteenth. Somebody who uses all of it asks some hundred times.
 */
const GRANT_PARTS = 100;

/** What is left after that; undefined: it does not suffice, or is of another hour. */
export function spend(allowance: Allowance | undefined, cost: Amounts, now: number): Allowance | undefined {
  return allowance?.hour === hourOf(now) ? subtract(allowance, cost) : undefined;
}

/** The same for an allowance that was given just now: the clock of who gave it counts. */
export function subtract(allowance: Allowance, cost: Amounts): Allowance | undefined {
  const left = { ...allowance.left };
  for (const [quota, amount] of entries(cost)) {
    const rest = (left[quota] ?? 0) - amount;
    if (rest < 0) return undefined;
    left[quota] = rest;
  }
  return { ...allowance, left };
}

/** What has to be asked for to pay that; a quota of which nothing is held yet even if nothing of it is needed now. */
export function missing(allowance: Allowance | undefined, cost: Amounts, now: number): Amounts {
  const held = allowance?.hour === hourOf(now) ? allowance.left : {};
  const lacks = entries(cost).filter(([quota, amount]) => amount > (held[quota] ?? -1));
  return Object.fromEntries(lacks.map(([quota, amount]) => [quota, amount - (held[quota] ?? 0)]));
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

/** When there is something to be had again. */
export function retryAfterMs(now: number): number {
  return HOUR_MS - (now % HOUR_MS);
}

export function entries(amounts: Amounts): [Quota, number][] {
  return Object.entries(amounts) as [Quota, number][];
}

const HOUR_MS = 60 * 60 * 1000;
