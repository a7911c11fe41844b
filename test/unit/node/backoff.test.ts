import { afterEach, expect, test, vi } from "vitest";
import { Backoff } from "../../../src/node/backoff.ts";

afterEach(() => void vi.restoreAllMocks());

test("delays double from the minimum to the maximum, and start over after a success", () => {
  vi.spyOn(Math, "random").mockReturnValue(1);
  const backoff = new Backoff(100, 1000);
  expect([1, 2, 3, 4, 5, 6].map(() => backoff.next())).toEqual([100, 200, 400, 800, 1000, 1000]);
  backoff.reset();
  expect(backoff.next()).toBe(100);
});

test("at most half of a delay is left out at random", () => {
  vi.spyOn(Math, "random").mockReturnValue(0);
  expect(new Backoff(100, 1000).next()).toBe(50);
});

test("a delay never exceeds the maximum, even after very many attempts", () => {
  vi.spyOn(Math, "random").mockReturnValue(1);
  const backoff = new Backoff(1, 60_000);
  for (let attempt = 0; attempt < 2000; attempt++) expect(backoff.next()).toBeLessThanOrEqual(60_000);
});
