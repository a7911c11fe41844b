/** `npm run fuzz`: runs the fuzz tests with other messages, with more of them, or with all large fields. */
import { spawnSync } from "node:child_process";
import { parseArgs } from "node:util";

const USAGE = `npm run fuzz -- [--seed N] [--inputs M] [--fields M|all]

  --seed    a number that repeats a run; a failed test has it in its title
  --inputs  how many damaged messages to send to a whole gateway; 100000 unless told
  --fields  how many fields of messages to make too large, one at a time; all unless told`;

const { values } = parseArgs({
  options: {
    seed: { type: "string", default: String(Math.floor(Math.random() * 2 ** 32)) },
    inputs: { type: "string", default: "100000" },
    fields: { type: "string", default: "all" },
    help: { type: "boolean", default: false },
  },
});

function isCount(text: string): boolean {
  return /^\d+$/.test(text);
}

function run(): number {
  const { seed, inputs, fields, help } = values;
  if (help || !isCount(seed) || !isCount(inputs) || !(fields === "all" || isCount(fields))) {
    console.log(USAGE);
    return help ? 0 : 2;
  }
  const { status } = spawnSync(
    "vitest",
    ["run", "test/workerd/large-fields.test.ts", "test/e2e/fuzz.test.ts"],
    {
      stdio: "inherit",
      env: { ...process.env, FUZZ_SEED: seed, FUZZ_INPUTS: inputs, FUZZ_FIELDS: fields },
    },
  );
  return status ?? 1;
}

process.exitCode = run();
