import { expect, test } from "vitest";
import { hear, judge } from "../../../src/connection/liveness.ts";
import { LIMITS } from "../../../src/protocol/limits.ts";

const { socketIdleMs, pongMs } = LIMITS;
const MINUTE = 60_000;
/** When at the latest somebody was heard of, which is written down as of 0. */
const SILENT = MINUTE + socketIdleMs;

test("a silent client is pinged, waited for, and then detached", () => {
  expect(judge({ heard: 0 }, true, SILENT - 1)).toBe(SILENT);
  expect(judge({ heard: 0 }, true, SILENT)).toBe("ask");
  expect(judge({ heard: 0, askedAt: SILENT }, true, SILENT + 1)).toBe(SILENT + pongMs);
  expect(judge({ heard: 0, askedAt: SILENT }, true, SILENT + pongMs)).toBe("no answer");
});

test("a client that cannot be pinged is idle after the same time", () => {
  expect(judge({ heard: 0 }, false, SILENT - 1)).toBe(SILENT);
  expect(judge({ heard: 0 }, false, SILENT)).toBe("idle");
});

test("traffic is recorded once a minute, but an answer to a ping at once", () => {
  expect(hear({ heard: 0 }, MINUTE - 1)).toBeUndefined();
  expect(hear({ heard: 0 }, MINUTE)).toEqual({ heard: MINUTE, askedAt: undefined });
  expect(hear({ heard: 0, askedAt: 1 }, 2)).toEqual({ heard: 2, askedAt: undefined });
});
