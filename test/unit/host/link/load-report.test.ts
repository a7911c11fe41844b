import { expect, test } from "vitest";
import { isNoticeable } from "../../../../src/host/link/load-report.ts";

const load = { runs: 1, loadAverage: 2, freeMemory: 1000 };

test.each([
  [{ runs: 2 }, true],
  [{ runs: 0 }, true],
  [{ loadAverage: 2.4 }, false],
  [{ loadAverage: 2.6 }, true],
  [{ loadAverage: 1.4 }, true],
  [{ freeMemory: 900 }, false],
  [{ freeMemory: 700 }, true],
  [{ freeMemory: 1300 }, true],
  [{}, false],
])("a load that changed by %j is reported: %s", (change, expected) => {
  expect(isNoticeable(load, { ...load, ...change })).toBe(expected);
});
