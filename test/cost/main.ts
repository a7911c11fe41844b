import { parseArgs } from "node:util";
import { USUAL, type Usage } from "./calculator.ts";
import { MEASURED } from "./measured-counts.ts";
import { billTable, limitsTable, sessionSentence } from "./report.ts";

/** `npm run cost -- --sessions 1000000 --turns 5` prints a month's bill and the limits that it comes closest to. */

const HELP = `npm run cost -- [options]

Prints what the gateway costs on Cloudflare in a month, and the limits that the usage comes closest to.

  --sessions N            sessions in the month (${USUAL.sessions} unless told; a single session is billed without the plan and its amounts)
  --turns N               turns of 200 updates in a session (${USUAL.turns})
  --idle-hours N          hours in which a session's process waits for a turn, or for its end (${USUAL.idleHours})
  --connections N         clients that are connected all month (${USUAL.connections})
  --reconnects-per-day N  how often each of them connects anew (${USUAL.reconnectsPerDay})
  --help                  print this text

Not counted: rows read, CPU time, logs, R2, containers and models. docs/cost.md says more.`;

function given() {
  try {
    const { values } = parseArgs({
      options: {
        sessions: { type: "string" },
        turns: { type: "string" },
        "idle-hours": { type: "string" },
        connections: { type: "string" },
        "reconnects-per-day": { type: "string" },
        help: { type: "boolean", default: false },
      },
    });
    return values;
  } catch (error) {
    return refuse(error instanceof Error ? error.message : String(error));
  }
}

function refuse(message: string): never {
  console.error(`${message}\n\n${HELP}`);
  process.exit(2);
}

const values = given();
if (values.help) {
  console.log(HELP);
  process.exit(0);
}

function amount(option: Exclude<keyof typeof values, "help">, otherwise: number): number {
  const text = values[option];
  if (text === undefined) return otherwise;
  const value = Number(text);
  if (text.trim() === "" || !Number.isFinite(value)) refuse(`--${option}: ${text} is not a number`);
  if (value < 0) refuse(`--${option}: ${text} is less than 0`);
  return value;
}

const usage: Usage = {
  sessions: amount("sessions", USUAL.sessions),
  turns: amount("turns", USUAL.turns),
  idleHours: amount("idle-hours", USUAL.idleHours),
  connections: amount("connections", USUAL.connections),
  reconnectsPerDay: amount("reconnects-per-day", USUAL.reconnectsPerDay),
};

console.log(sessionSentence(usage, MEASURED));
console.log(`\n${billTable(usage, MEASURED)}`);
console.log(`\n${limitsTable(usage, MEASURED)}`);
