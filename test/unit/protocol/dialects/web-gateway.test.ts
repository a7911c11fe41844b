import { describe, expect, test } from "vitest";
import { translateBack } from "../../../../src/protocol/dialects/index.ts";
import * as seed003 from "../../../fixtures/dialects/local-mcp-servers.ts";
import * as seed002 from "../../../fixtures/dialects/web-gateway.ts";
import type { Json } from "../../../fixtures/json.ts";
import { json, paramsOf, updated } from "./fixtures.ts";

describe("an update for the web gateway", () => {
  const text = (words: string) => ({ type: "text", text: words });

  test.each<[string, Json, string]>([
    [
      "a message chunk",
      { sessionUpdate: "agent_message_chunk", content: text("Let me read the README file...") },
      seed002.messageChunk,
    ],
    [
      "a thought chunk",
      { sessionUpdate: "agent_thought_chunk", content: text("I should look at the README.md file first...") },
      seed002.thoughtChunk,
    ],
    [
      "a tool call",
      {
        sessionUpdate: "tool_call",
        toolCallId: "tc-001",
        title: "read_file",
        rawInput: { path: "/workspace/README.md" },
      },
      seed002.toolCall,
    ],
    [
      "a tool's result",
      {
        sessionUpdate: "tool_call_update",
        toolCallId: "tc-001",
        status: "completed",
        content: [{ type: "content", content: text("# Simple Agent Manager\n\nA serverless platform...") }],
      },
      seed002.toolCallUpdate,
    ],
  ])("%s is translated as printed", (_, update, printed) => {
    expect(updated("seed-002", update)).toEqual(json(printed));
  });

  test("has a tool's kind in _meta and keeps the rest", () => {
    const diff = { type: "diff", path: "a", newText: "b" };
    const update = {
      sessionUpdate: "tool_call",
      toolCallId: "t",
      name: "write",
      title: "Write a",
      kind: "edit",
      status: "pending",
      content: [diff],
      locations: [{ path: "a" }],
      _meta: { k: 1 },
    };
    expect(updated("seed-002", update).params).toMatchObject({
      update: {
        kind: "tool_call",
        toolCallId: "t",
        name: "write",
        title: "Write a",
        input: {},
        status: "pending",
        output: [diff],
        locations: [{ path: "a" }],
        _meta: { k: 1, "acp-edge/kind": "edit" },
      },
    });
  });

  test("of any other sort has its name as kind", () => {
    const entries = [{ content: "a", priority: "high", status: "pending" }];
    expect(updated("seed-002", { sessionUpdate: "plan", entries }).params).toMatchObject({
      update: { kind: "plan", entries },
    });
    expect(updated("seed-002", { sessionUpdate: "future", content: [1], x: 2 }).params).toMatchObject({
      update: { kind: "future", content: [1], x: 2 },
    });
  });

  test("for a permission request is translated as printed, beside the canonical request", () => {
    const printed = json(seed002.permissionRequest);
    const { toolName, description, input } = printed.params as Json;
    const params = {
      sessionId: "s",
      toolCall: { toolCallId: "t", name: toolName, title: description, kind: "edit", rawInput: input },
      options: [{ optionId: "once", kind: "allow_once", name: "Allow" }],
    };
    const raw = JSON.stringify({ ...printed, id: "perm-xyz789", params });
    const [message] = translateBack("seed-002", raw, "s");
    expect(json(message as string)).toMatchObject({ ...printed, id: "perm-xyz789" });
    expect(paramsOf(message as string)).toMatchObject(params);
  });

  test("that is anything else keeps its text", () => {
    for (const raw of [seed002.promptResponse, seed003.error, '{"method":"_x","params":{"n":1.0}}'])
      expect(translateBack("seed-002", raw, "s")).toEqual([raw]);
  });
});
