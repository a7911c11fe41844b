import { AWAKE_SECONDS, INDEX_BYTES, PLATFORM, PRICES, type PriceName } from "./prices.ts";
import { type Bill, type MeasuredCounts, type StepName, sumOf } from "./steps.ts";

/** What a gateway is used for in a month. */
export type Usage = {
  readonly sessions: number;
  /** Turns of 200 updates in a session. */
  readonly turns: number;
  /** Hours in which a session's process waits for the next turn, or for its end. */
  readonly idleHours: number;
  /** Clients that are connected all the time, and how often each of them connects anew in a day. */
  readonly connections: number;
  readonly reconnectsPerDay: number;
};

/** A day's work in an editor: five turns, and half an hour until the process of a closed editor ends. */
export const USUAL: Usage = { sessions: 1, turns: 5, idleHours: 0.5, connections: 0, reconnectsPerDay: 1 };

const DAYS = 30;
const UPDATES_PER_TURN = 200;
/** The time in which all clients come back after a restart of the gateway. */
const RETURN_SECONDS = 60;

type Amounts = Record<PriceName, number>;
export type BillLine = { readonly name: PriceName; readonly amount: number; readonly dollars: number };

/** The pieces that a month is billed for. */
export function amountsOf(usage: Usage, measured: MeasuredCounts): Amounts {
  const { sessions, turns, connections, reconnectsPerDay } = usage;
  const connects = connections * reconnectsPerDay * DAYS;
  const bills = [
    times(sessionBill(usage, measured), sessions),
    times(billOf(measured, "reconnect"), connects),
  ];
  const { rows, calls, messages } = sumOf(bills);
  const { opened, perUpdate } = measured.sessionBytes;
  return {
    rowsWritten: rows,
    requests: calls + messages / PLATFORM.messagesPerRequest,
    duration: (calls + messages) * AWAKE_SECONDS * PLATFORM.objectGigabytes,
    // The upgrades of a client, of the host's socket for the session, and of a few calls of the REST API.
    workerRequests: 5 * sessions + connects,
    storage: (sessions * (opened + turns * UPDATES_PER_TURN * perUpdate + INDEX_BYTES)) / 1e9,
  };
}

/** One session from its connection to its end. */
export function sessionBill({ turns, idleHours }: Usage, measured: MeasuredCounts): Bill {
  return sumOf([
    billOf(measured, "connect"),
    billOf(measured, "open"),
    times(billOf(measured, "turn"), turns),
    times(billOf(measured, "idleHour"), idleHours),
    billOf(measured, "end"),
  ]);
}

/** The bill of a month. `isIncluded`: the amounts that the plan includes cost nothing, and the plan itself costs. */
export function billLines(amounts: Amounts, { isIncluded }: { isIncluded: boolean }): BillLine[] {
  return (Object.entries(amounts) as [PriceName, number][]).map(([name, amount]) => {
    const { included, perMillion } = PRICES[name];
    const billed = Math.max(0, amount - (isIncluded ? included : 0));
    return { name, amount, dollars: (billed / 1e6) * perMillion };
  });
}

export function dollarsOf(lines: readonly BillLine[], { isIncluded }: { isIncluded: boolean }): number {
  return lines.reduce((sum, { dollars }) => sum + dollars, isIncluded ? PRICES.plan : 0);
}

/** How much of a limit is used. Above 1 the limit is exceeded. */
export type LimitUse = { readonly name: string; readonly used: number; readonly allowed: number };

/** The limits that the usage comes closest to, the closest first. All usage is that of one tenant. */
export function limitUses(usage: Usage, measured: MeasuredCounts): LimitUse[] {
  const seconds = DAYS * 24 * 60 * 60;
  const callsOf = (step: StepName, payee: string) => measured.steps[step].bills[payee]?.calls ?? 0;
  const tenantCalls = (steps: readonly StepName[]) =>
    steps.reduce((sum, step) => sum + callsOf(step, "TenantState"), 0);
  const perSession = tenantCalls(["connect", "open", "end"]);
  const connects = usage.connections * usage.reconnectsPerDay * DAYS;
  const indexWrites = usage.sessions * (usage.turns + 3);
  const uses: LimitUse[] = [
    {
      name: "calls a second of the tenant's object, all month",
      used: (usage.sessions * perSession + connects * tenantCalls(["reconnect"])) / seconds,
      allowed: PLATFORM.requestsPerSecond,
    },
    {
      name: `calls a second of the tenant's object when all clients come back within ${RETURN_SECONDS} s`,
      used: (usage.connections * tenantCalls(["reconnect"])) / RETURN_SECONDS,
      allowed: PLATFORM.requestsPerSecond,
    },
    {
      name: "writes a second of the D1 database",
      used: indexWrites / seconds,
      allowed: PLATFORM.d1WritesPerSecond,
    },
    {
      name: "gigabytes of the D1 database after a year",
      used: (12 * usage.sessions * INDEX_BYTES) / 1e9,
      allowed: PLATFORM.d1Gigabytes,
    },
  ];
  return uses.sort((a, b) => b.used / b.allowed - a.used / a.allowed);
}

/** Sessions a day on the plan Workers Free. */
export function freeSessionsPerDay(usage: Usage, measured: MeasuredCounts): number {
  return Math.floor(PLATFORM.freeRowsPerDay / sessionBill(usage, measured).rows);
}

export function billOf(measured: MeasuredCounts, step: StepName): Bill {
  return sumOf(Object.values(measured.steps[step].bills));
}

function times({ rows, calls, messages }: Bill, factor: number): Bill {
  return { rows: rows * factor, calls: calls * factor, messages: messages * factor };
}
