/** `npm run chaos`: repeats a run of random faults, or makes a longer one. */
import { spawnSync } from "node:child_process";
import { parseArgs } from "node:util";

const USAGE = `npm run chaos -- [--seed N] [--minutes M]

  --seed     a number that repeats the schedule of a run; a failed test has it in its title
  --minutes  how long faults happen, nine each second; 10 unless told

A run takes these minutes, and up to six more for its start, for healing and for the checks. Every ten seconds it prints
the phase and the faults so far; at the end the options, the counts and the violations, and with violations every fault.`;

function given() {
  return parseArgs({
    options: {
      seed: { type: "string", default: String(Math.floor(Math.random() * 2 ** 31)) },
      minutes: { type: "string", default: "10" },
      help: { type: "boolean", default: false },
    },
  }).values;
}

function refuse(message: string): number {
  console.error(`${message}\n\n${USAGE}`);
  return 2;
}

function run(): number {
  let values: ReturnType<typeof given>;
  try {
    values = given();
  } catch (error) {
    return refuse(error instanceof Error ? error.message : String(error));
  }
  const { seed, minutes, help } = values;
  if (help) {
    console.log(USAGE);
    return 0;
  }
  if (!/^\d+$/.test(seed)) return refuse(`--seed: ${seed} is not a whole number`);
  if (!(Number(minutes) > 0 && Number.isFinite(Number(minutes))))
    return refuse(`--minutes: ${minutes} is not a number above 0`);
  const { status } = spawnSync("vitest", ["run", "test/e2e/chaos.test.ts"], {
    stdio: "inherit",
    env: { ...process.env, CHAOS_SEED: seed, CHAOS_MINUTES: minutes, CHAOS_PROGRESS: "1" },
  });
  return status ?? 1;
}

process.exitCode = run();
