import { describe, expect, test } from "vitest";
import { STATE_BUDGET } from "../../../../../src/session/core/state/state-budget.ts";
import {
  addTurn,
  countUpdate,
  finishTurn,
  initialTurnHistory,
  startTurn,
  type TurnRecord,
} from "../../../../../src/session/core/state/turn-history.ts";

const prompt = (...texts: string[]) => ({ prompt: texts.map((text) => ({ type: "text", text })) });
const chunk = (text: string) => ({ sessionUpdate: "agent_message_chunk", content: { type: "text", text } });

describe("the history of turns", () => {
  test("follows a turn from its prompt to its end", () => {
    const history = initialTurnHistory();
    addTurn(history, {
      turnId: "turn_1",
      prompt: 7,
      at: 1,
      requestId: "req_1",
      params: prompt("Hello", "you"),
    });
    expect(history.recent[0]?.status).toBe("queued");
    startTurn(history, { turnId: "turn_1", prompt: 7 }, 2);
    const record = history.recent[0] as TurnRecord;
    countUpdate(record, chunk("I look"), 0);
    countUpdate(record, chunk("."), 0);
    countUpdate(record, { sessionUpdate: "tool_call", toolCallId: "t" }, 1);
    countUpdate(record, { sessionUpdate: "agent_thought_chunk", content: { type: "text", text: "hm" } }, 0);
    countUpdate(record, chunk("Done."), 0);
    finishTurn(history, "completed", { turnId: "turn_1", prompt: 7, stopReason: "end_turn" }, 9);
    expect(history).toEqual({
      total: 1,
      recent: [
        {
          turnId: "turn_1",
          prompt: 7,
          requestId: "req_1",
          status: "completed",
          queuedAt: 1,
          startedAt: 2,
          endedAt: 9,
          stopReason: "end_turn",
          reason: null,
          promptPreview: "Hello\nyou",
          replyPreview: "I look.\nDone.",
          updates: 5,
          toolCalls: 1,
        },
      ],
    });
  });

  test("ends a turn once", () => {
    const history = initialTurnHistory();
    startTurn(history, { turnId: "a", prompt: 1 }, 1);
    finishTurn(history, "failed", { turnId: "a", prompt: 1, reason: "agent_exited" }, 5);
    finishTurn(history, "completed", { turnId: "a", prompt: 1 }, 6);
    expect(history.recent[0]).toMatchObject({ status: "failed", reason: "agent_exited", endedAt: 5 });
  });

  test("keeps the beginning of long texts, and marks where they were cut", () => {
    const history = initialTurnHistory();
    const long = "ab😀".repeat(1000);
    const record = addTurn(history, { turnId: "a", prompt: 1, at: 1, params: prompt(long) });
    for (let i = 0; i < 1000; i += 1) countUpdate(record, chunk("😀b"), 0);
    expect(record.promptPreview).toBe(`${"ab😀".repeat(50)}…`);
    expect(record.replyPreview.length).toBeLessThanOrEqual(STATE_BUDGET.previewChars + 1);
    expect(record.replyPreview.isWellFormed()).toBe(true);
    expect(record.updates).toBe(1000);
  });

  test("keeps the latest turns and all turns that have not ended", () => {
    const history = initialTurnHistory();
    addTurn(history, { turnId: "waiting", prompt: 1, at: 1 });
    for (let i = 2; i < 200; i += 1) {
      startTurn(history, { turnId: `t${i}`, prompt: i }, i);
      finishTurn(history, "completed", { turnId: `t${i}`, prompt: i }, i);
    }
    expect(history.total).toBe(199);
    expect(history.recent).toHaveLength(STATE_BUDGET.endedTurns);
    expect(history.recent[0]?.turnId).toBe("waiting");
    expect(history.recent.at(-1)?.turnId).toBe("t199");
  });

  test("takes over turns of other systems, which name turns by id and may have previews only", () => {
    const history = initialTurnHistory();
    startTurn(history, { turnId: "x", prompt: 4, promptPreview: "asked" }, 10);
    finishTurn(history, "completed", { turnId: "x", replyPreview: "said" }, 20);
    expect(history.recent).toMatchObject([
      { turnId: "x", prompt: 4, status: "completed", promptPreview: "asked", replyPreview: "said" },
    ]);
  });
});
