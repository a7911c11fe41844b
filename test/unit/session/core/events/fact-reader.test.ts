import { describe, expect, test } from "vitest";
import { FACTS } from "../../../../../src/session/core/events/catalogue.ts";
import { isLineFault, readEnvelope } from "../../../../../src/session/core/events/envelope.ts";
import { envelope, isFact } from "../../../../../src/session/core/events/event.ts";
import { readFact } from "../../../../../src/session/core/events/fact-reader.ts";
import { apply } from "../../../../../src/session/core/state/fold.ts";
import { initialState } from "../../../../../src/session/core/state/state.ts";
import { openSession } from "../session-script.ts";

const CONTEXT = { acpSessionId: "a", agentSessionId: null, turnId: "turn_9" };
const BASE = { seq: 3, at: 1000, source: "acpx", context: CONTEXT };

describe("a line from elsewhere", () => {
  test("is a fact again if it comes from our own export", () => {
    const session = openSession();
    session.prompt("go");
    session.askPermission();
    session.exit();
    for (const event of session.log) {
      const read = readEnvelope(envelope(event, session.state.sessionId, "id"));
      if (isLineFault(read)) throw new Error(read.fault);
      expect(isFact(read.event)).toBe(isFact(event));
      expect(envelope(read.event, session.state.sessionId, "id")).toBe(read.line);
    }
  });

  test("names its turn in the envelope alone, and is a fact of that turn", () => {
    expect(readFact(BASE, "turn.started", {})).toMatchObject({
      kind: "turn.started",
      payload: { turnId: "turn_9", prompt: null },
    });
  });

  test("is foreign and changes nothing if it lacks a required field of its kind", () => {
    const event = readFact(BASE, "queue.enqueued", { turnId: "t" });
    expect(event).toEqual({ ...BASE, kind: "queue.enqueued", payload: { turnId: "t" }, foreign: true });
    const state = initialState("s");
    apply(state, event);
    expect(state.queue).toEqual([]);
    expect(state.lastSeq).toBe(3);
  });

  test("has null or nothing in place of a field of another type", () => {
    const exit = { run: 7, code: "1", signal: null, reason: "gone", expected: "yes", error: 5, extra: [1] };
    expect(readFact(BASE, "queue.owner.stopped", exit)).toMatchObject({
      payload: { run: null, code: null, signal: null, reason: "gone", expected: null, extra: [1] },
    });
    const { payload } = readFact(BASE, "queue.owner.stopped", exit);
    expect(payload).not.toHaveProperty("error");
  });

  test.each(["vendor.unheard_of", "toString", "__proto__", "acp.frame.unreadable"])(
    "of the unknown kind %s is foreign",
    (kind) => expect(readFact(BASE, kind, { a: 1 })).toMatchObject({ foreign: true, payload: { a: 1 } }),
  );
});

test("each kind of the catalogue says what it means, in a sentence", () => {
  for (const [kind, { meaning }] of Object.entries(FACTS)) expect(meaning, kind).toMatch(/^[A-Z`].*\.$/);
});
