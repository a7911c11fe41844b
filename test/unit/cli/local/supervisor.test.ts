import { expect, test } from "vitest";
import { Guard, Supervised } from "../../../../src/cli/local/supervisor.ts";

/** Runs a script under supervision, and returns the delays before its first restarts. */
async function delays(script: string): Promise<string[]> {
  const guard = new Guard();
  const lines: string[] = [];
  const { promise, resolve } = Promise.withResolvers<void>();
  const process = new Supervised(
    { name: "child", args: ["-e", script], graceSeconds: 1, onMessage: () => process.markReady() },
    guard,
    (line) => {
      if (lines.push(line) === 3) resolve();
    },
  );
  await promise;
  await process.stop();
  await guard.close();
  return lines.map((line) => line.split("restarting in ")[1] ?? line);
}

test("a process that ends before it is ready is restarted with growing delays", async () => {
  expect(await delays("process.exit(1)")).toEqual(["250 ms", "500 ms", "1000 ms"]);
});

test("a process that ends after it was ready is restarted with the shortest delay", async () => {
  expect(await delays("process.send('ready', () => process.exit(1))")).toEqual([
    "250 ms",
    "250 ms",
    "250 ms",
  ]);
});
