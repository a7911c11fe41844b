import { expect, test } from "vitest";
import { checkLiveness, touch } from "../../../src/connection/liveness.ts";
import { DEFAULT_LIMITS } from "../../../src/protocol/limits.ts";

const { socketIdleMs, pongMs } = DEFAULT_LIMITS;
const MINUTE = 60_000;
/** The time of the last traffic, of which time 0 is recorded. */
const SILENT = MINUTE + socketIdleMs;

test("a silent client is pinged, waited for, and then detached", () => {
  expect(checkLiveness({ heard: 0 }, true, SILENT - 1, DEFAULT_LIMITS)).toBe(SILENT);
  expect(checkLiveness({ heard: 0 }, true, SILENT, DEFAULT_LIMITS)).toBe("ping");
  expect(checkLiveness({ heard: 0, askedAt: SILENT }, true, SILENT + 1, DEFAULT_LIMITS)).toBe(
    SILENT + pongMs,
  );
  expect(checkLiveness({ heard: 0, askedAt: SILENT }, true, SILENT + pongMs, DEFAULT_LIMITS)).toBe(
    "no answer",
  );
});

test("a client that cannot be pinged is idle after the same time", () => {
  expect(checkLiveness({ heard: 0 }, false, SILENT - 1, DEFAULT_LIMITS)).toBe(SILENT);
  expect(checkLiveness({ heard: 0 }, false, SILENT, DEFAULT_LIMITS)).toBe("idle");
});

test("traffic is recorded once a minute, but an answer to a ping at once", () => {
  expect(touch({ heard: 0 }, MINUTE - 1, DEFAULT_LIMITS)).toBeUndefined();
  expect(touch({ heard: 0 }, MINUTE, DEFAULT_LIMITS)).toEqual({ heard: MINUTE, askedAt: undefined });
  expect(touch({ heard: 0, askedAt: 1 }, 2, DEFAULT_LIMITS)).toEqual({ heard: 2, askedAt: undefined });
});

test("a client that does not answer the ping for its unread output is detached, whatever else it says", () => {
  const at = { heard: pongMs, pausedAt: 1 };
  expect(checkLiveness(at, true, pongMs, DEFAULT_LIMITS)).toBe(1 + pongMs);
  expect(checkLiveness(at, true, 1 + pongMs, DEFAULT_LIMITS)).toBe("no answer");
});
