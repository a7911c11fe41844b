import {
  amountsOf,
  billLines,
  dollarsOf,
  freeSessionsPerDay,
  limitUses,
  sessionBill,
  type Usage,
} from "./calculator.ts";
import { PLATFORM, PRICES, type PriceName } from "./prices.ts";
import type { MeasuredCounts } from "./steps.ts";

const NAMES: Readonly<Record<PriceName, string>> = {
  rowsWritten: "rows written",
  requests: "requests to objects",
  duration: "GB-s of objects awake",
  workerRequests: "requests to the Worker",
  storage: "GB stored, for each month of the history",
};

/** The table of a month's bill. A single session is billed without the amounts that the plan includes. */
export function billTable(usage: Usage, measured: MeasuredCounts): string {
  const isIncluded = usage.sessions > 1 || usage.connections > 0;
  const lines = billLines(amountsOf(usage, measured), { isIncluded });
  const rows = lines.map(
    ({ name, amount, dollars }) => `| ${NAMES[name]} | ${number(amount)} | ${money(dollars)} |`,
  );
  const plan = isIncluded ? [`| the plan | | ${money(PRICES.plan)} |`] : [];
  const total = `| **sum** | | **${money(dollarsOf(lines, { isIncluded }))}** |`;
  return ["| | amount | dollars |", "|---|---|---|", ...rows, ...plan, total].join("\n");
}

export function limitsTable(usage: Usage, measured: MeasuredCounts): string {
  const rows = limitUses(usage, measured).map(
    ({ name, used, allowed }) =>
      `| ${name} | ${number(used)} | ${number(allowed)} | ${number((100 * used) / allowed)} % |`,
  );
  return ["| limit | used | allowed | share |", "|---|---|---|---|", ...rows].join("\n");
}

export function sessionSentence(usage: Usage, measured: MeasuredCounts): string {
  const { rows, calls, messages } = sessionBill(usage, measured);
  const requests = calls + messages / PLATFORM.messagesPerRequest;
  return (
    `A session of ${usage.turns} turns writes ${number(rows)} rows and makes ${number(requests)} requests. ` +
    `The plan Workers Free has room for ${freeSessionsPerDay(usage, measured)} such sessions a day.`
  );
}

export function number(value: number): string {
  const digits = value === 0 || value >= 100 ? 0 : value >= 1 ? 1 : 4;
  return value.toLocaleString("en-US", { maximumFractionDigits: digits });
}

function money(dollars: number): string {
  const digits = dollars >= 100 ? 0 : dollars >= 0.1 || dollars === 0 ? 2 : 6;
  return `$${dollars.toLocaleString("en-US", { minimumFractionDigits: Math.min(2, digits), maximumFractionDigits: digits })}`;
}
