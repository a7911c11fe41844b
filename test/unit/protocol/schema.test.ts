import { describe, expect, test } from "vitest";
import { initializeResult } from "../../../src/connection/methods/initialize.ts";
import { ErrorCode, errorResponse, notification, resultResponse } from "../../../src/protocol/errors.ts";
import { rpcErrorOf, unknownSession } from "../../../src/protocol/refusal.ts";
import { faults } from "../../fixtures/schema.ts";

const json = (text: string) => JSON.parse(text) as Record<string, unknown>;

describe("the schema checker", () => {
  const update = (content: unknown) =>
    json(
      notification("session/update", {
        sessionId: "s",
        update: { sessionUpdate: "agent_message_chunk", content },
      }),
    );

  test("finds invalid messages", () => {
    expect(faults(update({ type: "text", text: "a" }))).toEqual([]);
    expect(faults(update({ type: "text" }))).not.toEqual([]);
    expect(faults(update({ type: "video" }))).not.toEqual([]);
    expect(faults({ ...update({ type: "text", text: "a" }), type: "x" })).not.toEqual([]);
    expect(faults(json(resultResponse("1", { protocolVersion: "1" })), "initialize")).not.toEqual([]);
    expect(faults(json(resultResponse("1", {})), "session/new")).not.toEqual([]);
    expect(faults(json(resultResponse("1", {})))).not.toEqual([]);
    expect(faults(json(errorResponse("{}", { code: 1, message: "m" })))).not.toEqual([]);
    expect(faults(json('{"jsonrpc":"2.0","id":1,"error":{"code":"x"}}'))).not.toEqual([]);
    expect(faults(json('{"jsonrpc":"2.0","method":"session/other","params":{}}'))).not.toEqual([]);
  });
});

describe("a message of the gateway", () => {
  test("is valid as an answer to initialize, with and without an agent", () => {
    for (const agent of [
      null,
      { protocolVersion: 1 },
      { protocolVersion: 1, agentCapabilities: { promptCapabilities: { image: true } }, authMethods: [] },
    ])
      expect(faults(json(resultResponse("1", initializeResult(agent))), "initialize")).toEqual([]);
  });

  test("is valid as an error under any id", () => {
    for (const id of ["null", "7", '"a"', "-1"]) {
      for (const code of Object.values(ErrorCode))
        expect(faults(json(errorResponse(id, { code, message: "m" })))).toEqual([]);
      expect(faults(json(errorResponse(id, rpcErrorOf(unknownSession("s")))))).toEqual([]);
    }
  });
});
