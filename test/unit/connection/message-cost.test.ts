import { expect, test } from "vitest";
import { costOf } from "../../../src/connection/message-cost.ts";
import { frameOf } from "./frames.ts";

const SMALL = 100;

test("a message costs its characters, and a prompt one of the prompts", () => {
  expect(costOf(50, frameOf({ id: 1, method: "session/prompt" }), SMALL)).toEqual([
    { chars: 50, prompts: 1 },
  ]);
  expect(costOf(50, frameOf({ id: 1, method: "session/load" }), SMALL)).toEqual([{ chars: 50, prompts: 0 }]);
  expect(costOf(50, undefined, SMALL)).toEqual([{ chars: 50, prompts: 0 }]);
});

test.each([
  ["a response", { id: 1, result: {} }],
  ["a cancellation", { method: "session/cancel" }],
  ["an answer to a permission request", { id: 1, method: "session/respond_to_permission" }],
  ["a renewal of the token", { id: 1, method: "_acp-edge/renew" }],
])("a small message may be paid from the reserve: %s", (_, message) => {
  const cost = { chars: SMALL, prompts: 0 };
  expect(costOf(SMALL, frameOf(message), SMALL)).toEqual([cost, { reserve: SMALL }]);
  expect(costOf(SMALL + 1, frameOf(message), SMALL)).toEqual([{ ...cost, chars: SMALL + 1 }]);
});
