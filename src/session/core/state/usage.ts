import { clip } from "../../../protocol/clipped-text.ts";
import { isoTime } from "../../../protocol/iso-time.ts";
import { isRecord } from "../../../protocol/json-value.ts";
import type { Item } from "./bounded-values.ts";
import { STATE_BUDGET } from "./state-budget.ts";

/** Context window and cost as last reported. Agents report totals, not differences. */
export type Usage = {
  used: number | null;
  size: number | null;
  cost: { amount: number; currency: string } | null;
  /** Tokens by kind, from the last answer to a prompt (unstable in ACP). */
  tokens: Record<string, number> | null;
  /** The totals over all processes: cost by currency, tokens by kind. */
  costs?: Record<string, Meter>;
  tokenMeters?: Record<string, Meter>;
  /** The amounts of each day (UTC), the newest last. */
  days?: UsageDay[];
};

/**
 * The count of a value that the agent reports as a total. Some agents go on from the total of the process before, others
 * begin at zero: a total that is lower in a new process (`restarted`) is added to the totals before (`base`).
 */
export type Meter = { base: number; last: number; restarted?: true };

/** The use on one day; `seq` is the last event that added to it. */
export type UsageDay = {
  day: string;
  seq: number;
  costs: Record<string, number>;
  tokens: Record<string, number>;
};

type UsageReport = { usage: Usage | null };

/** When a report was made: its event and the time. */
export type ReportedAt = { seq: number; at: number };

/** A total that the update does not mention has not changed. */
export function setUsage(report: UsageReport, { used, size, cost }: Item, when: ReportedAt): void {
  const usage = usageOf(report);
  usage.used = count(used) ?? usage.used;
  usage.size = count(size) ?? usage.size;
  const amount = isRecord(cost) ? count(cost.amount) : undefined;
  if (!isRecord(cost) || amount === undefined || typeof cost.currency !== "string") return;
  usage.cost = { amount, currency: clip(cost.currency, STATE_BUDGET.labelChars) };
  const currency = cost.currency.toUpperCase();
  if (!CURRENCY.test(currency)) return;
  usage.costs ??= {};
  if (currency in usage.costs || Object.keys(usage.costs).length < CURRENCIES)
    addToDay(usage, "costs", currency, readTotal(usage.costs, currency, amount), when);
}

/** The tokens of an answer to a prompt: those of its turn, as published agents count them. */
export function setTokens(report: UsageReport, given: unknown, when: ReportedAt): void {
  if (!isRecord(given)) return;
  const usage = usageOf(report);
  const tokens: Record<string, number> = {};
  usage.tokenMeters ??= {};
  for (const name of TOKENS) {
    const number = count(given[name]);
    if (number === undefined) continue;
    tokens[name] = number;
    addToDay(usage, "tokens", name, add(usage.tokenMeters, name, number), when);
  }
  usage.tokens = tokens;
}

const TOKENS = [
  "totalTokens",
  "inputTokens",
  "outputTokens",
  "thoughtTokens",
  "cachedReadTokens",
  "cachedWriteTokens",
] as const;

/** The code of a currency, and how many of them one session can have. */
const CURRENCY = /^[A-Z\d]{1,16}$/;
const CURRENCIES = 4;

/** A new process may begin its totals at zero. */
export function restartUsage({ usage }: UsageReport): void {
  for (const meter of metersOf(usage)) meter.restarted = true;
}

/** A copy of a session has used nothing yet. Its agent may go on from the totals of the original. */
export function forgetUsage({ usage }: UsageReport): void {
  for (const meter of metersOf(usage)) meter.base = -meter.last;
  if (usage) delete usage.days;
}

/** The totals of the session over all processes. */
export function totalsOf({ costs = {}, tokenMeters = {} }: Usage) {
  const sums = (meters: Record<string, Meter>) =>
    Object.fromEntries(Object.entries(meters).map(([name, { base, last }]) => [name, base + last]));
  return { costs: sums(costs), tokens: sums(tokenMeters) };
}

function metersOf(usage: Usage | null): Meter[] {
  return usage ? [...Object.values(usage.costs ?? {}), ...Object.values(usage.tokenMeters ?? {})] : [];
}

/** Adds a number to its meter. Returns by how much the sum has grown. */
function add(meters: Record<string, Meter>, name: string, value: number): number {
  const { base, last } = meters[name] ?? { base: 0, last: 0 };
  meters[name] = { base: base + last, last: value };
  return value;
}

/** Reads a total into its meter. Returns by how much the sum over all processes has grown. */
function readTotal(meters: Record<string, Meter>, name: string, value: number): number {
  const meter = meters[name] ?? { base: 0, last: 0 };
  const isAnew = value < meter.last && meter.restarted === true;
  const base = isAnew ? meter.base + meter.last : meter.base;
  meters[name] = { base, last: value };
  return base + value - (meter.base + meter.last);
}

function addToDay(
  usage: Usage,
  kind: "costs" | "tokens",
  name: string,
  more: number,
  { seq, at }: ReportedAt,
): void {
  if (more === 0) return;
  const day = isoTime(at).slice(0, 10);
  usage.days ??= [];
  let today = usage.days.find((known) => known.day === day);
  if (!today) {
    today = { day, seq, costs: {}, tokens: {} };
    usage.days = [...usage.days, today].slice(-STATE_BUDGET.usageDays);
  }
  today.seq = seq;
  today[kind][name] = (today[kind][name] ?? 0) + more;
}

function usageOf(report: UsageReport): Usage {
  report.usage ??= { used: null, size: null, cost: null, tokens: null };
  return report.usage;
}

/** A number that sums of many sessions can take: a larger one would make the whole sum meaningless. */
function count(value: unknown): number | undefined {
  return typeof value === "number" && value >= 0 && value <= LARGEST ? value : undefined;
}

const LARGEST = 1e12;
