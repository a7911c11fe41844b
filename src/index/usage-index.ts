import type { Caller } from "../protocol/caller.ts";
import type { UsageList, UsageSum } from "../protocol/usage.ts";
import { type CallersTable, readCallersPage } from "./callers-page.ts";
import { runner } from "./runner.ts";

/** What a session has used on one day, as a row of the D1 table `usage`. */
type UsageRow = {
  day: string;
  sessionId: string;
  workspace: string;
  /** The owner of the session. */
  subject: string;
  agent: string;
  /** JSON text: amounts by currency. */
  costs: string;
  totalTokens: number;
  inputTokens: number;
  outputTokens: number;
};

/** A row as its session writes it; `lastSeq` is the last event that added to it. */
export type UsageEntry = UsageRow & { tenant: string; lastSeq: number };

const COLUMNS: Readonly<Record<keyof UsageRow, string>> = {
  day: "day",
  sessionId: "session",
  workspace: "workspace",
  subject: "subject",
  agent: "agent",
  costs: "costs",
  totalTokens: "total_tokens",
  inputTokens: "input_tokens",
  outputTokens: "output_tokens",
};
const FIELDS = Object.keys(COLUMNS) as (keyof UsageRow)[];

const USAGE: CallersTable<UsageRow> = {
  workspace: "workspace",
  name: "usage",
  columns: COLUMNS,
  order: [
    ["day", String],
    ["sessionId", String],
  ],
  direction: "DESC",
};

/**
 * Sums by day, workspace, user and agent over a page of rows, the newest day first. A sum may continue on the next page:
 * a page reads a bounded number of rows, however many sessions there are. The bearer of a link sees no sums.
 */
export async function listUsage(
  index: D1Database,
  caller: Caller,
  { cursor, since, limit }: { cursor?: string | undefined; since?: string | undefined; limit: number },
): Promise<UsageList> {
  if (caller.session !== undefined || caller.redacted) return { usage: [], nextCursor: null };
  const { rows, nextCursor } = await readCallersPage(runner(index), USAGE, caller, limit, cursor);
  const wanted = since === undefined ? rows : rows.filter(({ day }) => day >= since);
  return { usage: sumsOf(wanted), nextCursor: wanted.length < rows.length ? null : nextCursor };
}

function sumsOf(rows: readonly UsageRow[]): UsageSum[] {
  const sums = new Map<string, UsageSum>();
  for (const { day, workspace, subject: user, agent, ...used } of rows) {
    const key = JSON.stringify([day, workspace, user, agent]);
    const nothing = { sessions: 0, costs: {}, tokens: { total: 0, input: 0, output: 0 } };
    const { sessions, costs, tokens } = sums.get(key) ?? nothing;
    sums.set(key, {
      ...{ day, workspace, user, agent, sessions: sessions + 1 },
      costs: added(costs, JSON.parse(used.costs) as Record<string, number>),
      tokens: {
        total: tokens.total + used.totalTokens,
        input: tokens.input + used.inputTokens,
        output: tokens.output + used.outputTokens,
      },
    });
  }
  return [...sums.values()];
}

function added(sum: Record<string, number>, more: Record<string, number>): Record<string, number> {
  const entries = Object.entries(more).map(([currency, amount]) => [currency, (sum[currency] ?? 0) + amount]);
  return { ...sum, ...Object.fromEntries(entries) };
}

/** Writes the amounts of days that have changed. A write that has seen less of the log changes nothing. */
export function writeUsage(index: D1Database, entries: readonly UsageEntry[]): D1PreparedStatement[] {
  return entries.map((entry) =>
    index
      .prepare(
        `INSERT INTO usage (tenant, ${Object.values(COLUMNS).join(", ")}, last_seq)
         VALUES (?, ${FIELDS.map(() => "?").join(", ")}, ?)
         ON CONFLICT (tenant, day, session) DO UPDATE SET costs = excluded.costs,
           total_tokens = excluded.total_tokens, input_tokens = excluded.input_tokens,
           output_tokens = excluded.output_tokens, last_seq = excluded.last_seq
         WHERE excluded.last_seq > usage.last_seq`,
      )
      .bind(entry.tenant, ...FIELDS.map((field) => entry[field]), entry.lastSeq),
  );
}
