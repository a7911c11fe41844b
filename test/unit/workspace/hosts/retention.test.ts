import { describe, expect, test } from "vitest";
import { forgettable } from "../../../../src/workspace/hosts/retention.ts";

const DAY = 24 * 60 * 60 * 1000;
const NOW = 100 * DAY;

describe("a host that is gone", () => {
  test("is remembered for thirty days", () => {
    const gone = [
      { name: "old", lastSeenAt: NOW - 30 * DAY },
      { name: "recent", lastSeenAt: NOW - 30 * DAY + 1 },
    ];
    expect(forgettable(gone, NOW)).toEqual(["old"]);
  });

  test("is forgotten when fifty other hosts left later", () => {
    const gone = Array.from({ length: 52 }, (_, at) => ({ name: `h${at}`, lastSeenAt: NOW - 52 + at }));
    expect(forgettable(gone, NOW)).toEqual(["h1", "h0"]);
  });
});
