import { describe, expect, test } from "vitest";
import { ErrorCode } from "../../../src/protocol/errors.ts";
import { type Refusal, rpcErrorOf, unknownPermission } from "../../../src/protocol/refusal.ts";

const message = "because";
const option = { optionId: "a", kind: "allow_once", name: "Allow" };

describe("rpcErrorOf", () => {
  test.each<[Refusal, number, object?]>([
    [{ reason: "not-found", message }, ErrorCode.notFound],
    [{ reason: "not-found", message, data: { sessionId: "s" } }, ErrorCode.notFound, { sessionId: "s" }],
    [{ reason: "gone", message }, ErrorCode.notFound],
    [{ reason: "forbidden", message }, ErrorCode.forbidden],
    [{ reason: "invalid", message }, ErrorCode.invalidParams],
    [{ reason: "no-option", message, options: [option] }, ErrorCode.invalidParams],
    [{ reason: "no-agent", message, agents: ["a"] }, ErrorCode.invalidParams, { agents: ["a"] }],
    [{ reason: "conflict", message }, ErrorCode.invalidRequest],
    [{ reason: "too-many", message, retryAfterMs: 5 }, ErrorCode.tooMany, { retryAfterMs: 5 }],
    [{ reason: "not-configured", message }, ErrorCode.internal],
    [{ reason: "unavailable", message }, ErrorCode.internal],
  ])("maps %j to code %i", (refusal, code, data) => {
    expect(rpcErrorOf(refusal)).toEqual({ code, message, ...(data && { data }) });
  });

  test("names the permission request that is not pending", () => {
    expect(rpcErrorOf(unknownPermission("s:3"))).toMatchObject({ data: { requestId: "s:3" } });
  });
});
