import { describe, expect, test } from "vitest";
import { translateBack } from "../../../../src/protocol/dialects/index.ts";
import * as localServers from "../../../fixtures/dialects/local-mcp-servers.ts";
import * as webGateway from "../../../fixtures/dialects/web-gateway.ts";
import type { Json } from "../../../fixtures/json.ts";
import { json, paramsOf, updated } from "./fixtures.ts";

describe("an update for the web gateway", () => {
  const text = (words: string) => ({ type: "text", text: words });

  test.each<[string, Json, string]>([
    [
      "a message chunk",
      { sessionUpdate: "agent_message_chunk", content: text("Let me read the README file...") },
      webGateway.messageChunk,
    ],
    [
      "a thought chunk",
      { sessionUpdate: "agent_thought_chunk", content: text("I should look at the README.md file first...") },
      webGateway.thoughtChunk,
    ],
    [
      "a tool call",
      {
        sessionUpdate: "tool_call",
        toolCallId: "tc-001",
        title: "read_file",
        rawInput: { path: "/workspace/README.md" },
      },
      webGateway.toolCall,
    ],
    [
      "a tool's result",
      {
        sessionUpdate: "tool_call_update",
        toolCallId: "tc-001",
        status: "completed",
        content: [{ type: "content", content: text("# Simple Agent Manager\n\nA serverless platform...") }],
      },
      webGateway.toolCallUpdate,
    ],
  ])("translates %s as in the dialect's example", (_, update, printed) => {
    expect(updated("web-gateway", update)).toEqual(json(printed));
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
    expect(updated("web-gateway", update).params).toMatchObject({
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

  test("has its ACP name as kind if the dialect has no kind for it", () => {
    const entries = [{ content: "a", priority: "high", status: "pending" }];
    expect(updated("web-gateway", { sessionUpdate: "plan", entries }).params).toMatchObject({
      update: { kind: "plan", entries },
    });
    expect(updated("web-gateway", { sessionUpdate: "future", content: [1], x: 2 }).params).toMatchObject({
      update: { kind: "future", content: [1], x: 2 },
    });
  });

  test("tells of a permission request as in the dialect's example, beside the canonical request", () => {
    const printed = json(webGateway.permissionRequest);
    const { toolName, description, input } = printed.params as Json;
    const params = {
      sessionId: "s",
      toolCall: { toolCallId: "t", name: toolName, title: description, kind: "edit", rawInput: input },
      options: [{ optionId: "once", kind: "allow_once", name: "Allow" }],
    };
    const raw = JSON.stringify({ ...printed, id: "perm-xyz789", params });
    const [message] = translateBack("web-gateway", raw, "s");
    expect(json(message as string)).toMatchObject({ ...printed, id: "perm-xyz789" });
    expect(paramsOf(message as string)).toMatchObject(params);
  });

  test("leaves the text of every other message unchanged", () => {
    for (const raw of [webGateway.promptResponse, localServers.error, '{"method":"_x","params":{"n":1.0}}'])
      expect(translateBack("web-gateway", raw, "s")).toEqual([raw]);
  });
});
