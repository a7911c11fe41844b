import { describe, expect, test } from "vitest";
import type { SegmentCursor } from "../../../../../src/protocol/rpc.ts";
import type { Context, LogEvent } from "../../../../../src/session/core/events/event.ts";
import type { Envelope } from "../../../../../src/session/log/row-format.ts";
import { segmentPage } from "../../../../../src/session/transfer/object/segments.ts";

const START: SegmentCursor = { after: 0, bytes: 0, events: 0 };
const CONTEXT: Context = { acpSessionId: null, agentSessionId: null, turnId: "t1" };

function happened(seq: number, kind = "elsewhere.happened", line = `event ${seq}`): Envelope {
  const base = { seq, at: 0, context: CONTEXT, source: "gateway" } as const;
  const event: LogEvent = { ...base, kind, payload: {}, foreign: true };
  return { seq, line, event: () => event };
}

function log(count: number): Envelope[] {
  return Array.from({ length: count }, (_, i) => happened(i + 1));
}

function textOf({ bytes }: { bytes: Uint8Array }): string {
  return new TextDecoder().decode(bytes);
}

describe("a page of a segment", () => {
  test("has the lines up to the last event that is wanted", () => {
    const page = segmentPage(log(5), START, 3, 1000);
    expect(textOf(page)).toBe("event 1\nevent 2\nevent 3\n");
    expect(page).toMatchObject({ ends: true, cursor: { after: 3, bytes: 24, events: 3 }, turns: [] });
  });

  test("ends at its size, and the next page continues the segment", () => {
    const first = segmentPage(log(5), START, 5, 20);
    expect(textOf(first)).toBe("event 1\nevent 2\n");
    expect(first.ends).toBe(false);
    const second = segmentPage(log(5).slice(2), first.cursor, 5, 1000);
    expect(textOf(second)).toBe("event 3\nevent 4\nevent 5\n");
    expect(second).toMatchObject({ ends: true, cursor: { after: 5, bytes: 40, events: 5 } });
  });

  test("has at least one line, whatever its size", () => {
    expect(textOf(segmentPage([happened(1, "x", "long ".repeat(100))], START, 1, 10))).toContain("long long");
  });

  test("ends when the segment has all the events it may have", () => {
    const full = { after: 10_000, bytes: 100, events: 10_000 };
    const page = segmentPage([happened(10_001)], full, 20_000, 1000);
    expect(page).toMatchObject({ ends: true, cursor: full });
    expect(page.bytes).toHaveLength(0);
  });

  test("ends before an import, so that the imported files come out as they came in", () => {
    const page = segmentPage([happened(1), happened(2, "session.imported"), happened(3)], START, 3, 1000);
    expect(textOf(page)).toBe("event 1\n");
    expect(page.ends).toBe(true);
    const next = segmentPage(
      [happened(2, "session.imported"), happened(3)],
      { after: 1, bytes: 0, events: 0 },
      3,
      1000,
    );
    expect(textOf(next)).toBe("event 2\nevent 3\n");
  });

  test("lists the facts about turns in it", () => {
    const base = { seq: 1, at: 0, context: CONTEXT, source: "gateway" } as const;
    const started: LogEvent = { ...base, kind: "turn.started", payload: { turnId: "t1", prompt: 7 } };
    const page = segmentPage([{ seq: 1, line: "line", event: () => started }], START, 1, 1000);
    expect(page.turns).toMatchObject([{ seq: 1, turnId: "t1", prompt: 7, stopReason: null }]);
  });
});
