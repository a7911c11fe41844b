import { clip } from "../../../protocol/clipped-text.ts";
import { isRecord } from "../../../protocol/json-value.ts";
import type { Item } from "./bounded-values.ts";
import { STATE_BUDGET } from "./state-budget.ts";

/** Context window and cost as last reported. Both are totals, not differences. */
export type Usage = {
  used: number | null;
  size: number | null;
  cost: { amount: number; currency: string } | null;
  /** Tokens by kind, from the last answer to a prompt (unstable in ACP). */
  tokens: Record<string, number> | null;
};

type UsageReport = { usage: Usage | null };

/** A total that the update does not mention has not changed. */
export function setUsage(report: UsageReport, { used, size, cost }: Item): void {
  const usage = usageOf(report);
  usage.used = count(used) ?? usage.used;
  usage.size = count(size) ?? usage.size;
  const amount = isRecord(cost) ? count(cost.amount) : undefined;
  if (isRecord(cost) && amount !== undefined && typeof cost.currency === "string")
    usage.cost = { amount, currency: clip(cost.currency, STATE_BUDGET.labelChars) };
}

export function setTokens(report: UsageReport, usage: unknown): void {
  if (!isRecord(usage)) return;
  const tokens: Record<string, number> = {};
  for (const name of TOKENS) {
    const number = count(usage[name]);
    if (number !== undefined) tokens[name] = number;
  }
  usageOf(report).tokens = tokens;
}

const TOKENS = [
  "totalTokens",
  "inputTokens",
  "outputTokens",
  "thoughtTokens",
  "cachedReadTokens",
  "cachedWriteTokens",
] as const;

function usageOf(report: UsageReport): Usage {
  report.usage ??= { used: null, size: null, cost: null, tokens: null };
  return report.usage;
}

function count(value: unknown): number | undefined {
  return typeof value === "number" && Number.isFinite(value) && value >= 0 ? value : undefined;
}
