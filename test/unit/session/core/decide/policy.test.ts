import { describe, expect, test } from "vitest";
import { ASK_ALWAYS } from "../../../../../src/protocol/permission-policy.ts";
import { rulingOn } from "../../../../../src/session/core/decide/policy.ts";
import { initialState } from "../../../../../src/session/core/state/state.ts";
import { foldToolCall } from "../../../../../src/session/core/state/tool-calls.ts";

const OPTIONS = [
  { optionId: "yes", kind: "allow_once" },
  { optionId: "no", kind: "reject_once" },
];

/** The policy's answer to a request of this kind about a tool call that was announced with another one. */
function answer(announced: string | undefined, requested: string | undefined): unknown {
  const state = initialState("s");
  state.policy = { ...ASK_ALWAYS, byKind: { read: "allow", execute: "reject" } };
  const call = { toolCallId: "t", ...(announced !== undefined && { kind: announced }) };
  foldToolCall(state.report, call, 1, 1, "call");
  const toolCall = { toolCallId: "t", ...(requested !== undefined && { kind: requested }) };
  const ruling = rulingOn(state, { toolCall, options: OPTIONS });
  return ruling?.outcome.outcome === "selected" ? ruling.outcome.optionId : "people";
}

describe("of two kinds of a tool call, the announced and the requested one,", () => {
  test.each([
    ["read", "read", "yes"],
    ["read", undefined, "yes"],
    ["execute", "read", "no"],
    ["read", "execute", "no"],
    ["edit", "read", "people"],
    ["read", "edit", "people"],
    // A call without a kind is of the kind `other`.
    [undefined, "read", "people"],
    ["execute", undefined, "no"],
  ])("%s and %s, the stricter one counts", (announced, requested, expected) => {
    expect(answer(announced, requested)).toBe(expected);
  });
});
