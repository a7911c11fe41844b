import { describe, expect, test } from "vitest";
import { isLineFault, readEnvelope } from "../../../../../src/session/core/events/envelope.ts";
import { isFact } from "../../../../../src/session/core/events/event.ts";
import { project } from "../../../../../src/session/core/read/projection.ts";
import { apply } from "../../../../../src/session/core/state/fold.ts";
import { initialState } from "../../../../../src/session/core/state/state.ts";
import { readLegacyRecord } from "../../../../../src/session/transfer/worker/legacy-record.ts";
import { Transcript } from "../../../../../src/session/transfer/worker/transcript.ts";

const RECORD = {
  acpxRecordId: "record-1",
  acpSessionId: "agent-session",
  cwd: "/work",
  createdAt: "2026-02-01T08:00:00.000Z",
  turnHistory: [
    { role: "user", timestamp: "2026-02-01T08:01:00.000Z", textPreview: "fix the tests" },
    { role: "assistant", timestamp: "2026-02-01T08:05:00.000Z", textPreview: "Done." },
    { role: "user", timestamp: "2026-02-01T08:06:00.000Z", textPreview: "thanks" },
  ],
};

/** The lines a record becomes, as an import reads them. */
function imported(record: object) {
  const { lines } = readLegacyRecord(new TextEncoder().encode(JSON.stringify(record)));
  const texts = lines.split("\n").filter((line) => line !== "");
  const events = texts.map((line) => {
    const read = readEnvelope(line);
    if (isLineFault(read)) throw new Error(read.fault);
    return read.event;
  });
  return { texts, events };
}

describe("an older record", () => {
  test("becomes facts of the catalogue", () => {
    const { events } = imported(RECORD);
    expect(events.filter((event) => !isFact(event))).toEqual([]);
    expect(events.map(({ kind }) => kind)).toEqual([
      "session.created",
      "turn.started",
      "turn.completed",
      "turn.started",
      "turn.completed",
      "queue.owner.stopped",
    ]);
  });

  test("shows the beginning of each prompt and reply in the projection", () => {
    const state = initialState("s");
    for (const event of imported(RECORD).events) apply(state, event);
    expect(project(state).turns).toMatchObject({
      total: 2,
      recent: [
        {
          turnId: "turn_synthetic_1",
          status: "completed",
          promptPreview: "fix the tests",
          replyPreview: "Done.",
          startedAt: "2026-02-01T08:01:00.000Z",
          endedAt: "2026-02-01T08:05:00.000Z",
        },
        {
          turnId: "turn_synthetic_2",
          status: "completed",
          promptPreview: "thanks",
          replyPreview: "",
        },
      ],
    });
  });

  test("reads as a conversation in Markdown", () => {
    const transcript = new Transcript({ acpxRecordId: "s" });
    const body = imported(RECORD).texts.map((line) => transcript.push(JSON.parse(line)));
    const markdown = body.join("") + transcript.end();
    expect(markdown).toContain("## User\n\nfix the tests *(preview)*");
    expect(markdown).toContain("## Agent\n\nDone. *(preview)*");
    expect(markdown).toContain("## User\n\nthanks *(preview)*");
  });
});
