/** The steps of the scripted hour that `test/workerd/cost/hour.test.ts` measures. */
export const STEPS = {
  host: "a host joins a new workspace",
  connect: "a client connects with a new token and initializes",
  reconnect: "a client connects again with its token, on a new connection",
  open: "`session/new`, with the start of a process",
  turn: "a turn of 200 updates at 30 a second",
  slowTurn: "a turn of 40 updates in ten minutes, session, connection and workspace evicted before each",
  idleHour: "an hour of an idle process with a client attached",
  end: "`session/close`, the end of the process, the client disconnects",
} as const;

export type StepName = keyof typeof STEPS;

/**
 * Everything that the platform bills by the piece. Rows written: `setAlarm` and a key of the key-value store count as one
 * row. Calls: RPC calls, upgrades of sockets and alarms. Messages: those that arrive on WebSockets of objects.
 */
export type Bill = { readonly rows: number; readonly calls: number; readonly messages: number };

/** The bill of a step by class of objects, and D1. Deliveries are the calls from the session to the connection. */
export type StepCounts = { readonly deliveries: number; readonly bills: Readonly<Record<string, Bill>> };

export type MeasuredCounts = {
  readonly steps: Readonly<Record<StepName, StepCounts>>;
  /** The database of a session's object: after `session/new`, and its growth by one update of a turn. */
  readonly sessionBytes: { readonly opened: number; readonly perUpdate: number };
};

export const NO_BILL: Bill = { rows: 0, calls: 0, messages: 0 };

export function sumOf(bills: Iterable<Bill>): Bill {
  let { rows, calls, messages } = NO_BILL;
  for (const bill of bills) {
    rows += bill.rows;
    calls += bill.calls;
    messages += bill.messages;
  }
  return { rows, calls, messages };
}
