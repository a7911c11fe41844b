import { describe, expect, test } from "vitest";
import { translateBack } from "../../../../src/protocol/dialects/index.ts";
import * as container from "../../../fixtures/dialects/container-data-model.ts";
import * as localServers from "../../../fixtures/dialects/local-mcp-servers.ts";
import * as webGateway from "../../../fixtures/dialects/web-gateway.ts";
import type { Json } from "../../../fixtures/json.ts";
import { forwarded, json, paramsOf, updated } from "./fixtures.ts";

describe("an update in the container data model", () => {
  const text = (words: string) => ({ type: "text", text: words });

  test("has the status thinking or working, as in the dialect's example", () => {
    expect(
      updated("container", { sessionUpdate: "agent_thought_chunk", content: text("Let me see") }),
    ).toEqual(json(container.thinking));
    expect(
      updated("container", { sessionUpdate: "agent_message_chunk", content: text("It says hello.") }),
    ).toEqual(json(container.working));
  });

  test("has the status completed before the prompt's response, as in the dialect's example", () => {
    const [completed, response] = translateBack("container", webGateway.promptResponse, "session-abc123");
    expect(json(completed as string)).toEqual(json(container.completed));
    expect(response).toBe(webGateway.promptResponse);
  });

  test("has the status error before the error response", () => {
    const [failed, response] = translateBack("container", localServers.error, "s");
    expect(json(failed as string)).toEqual({
      jsonrpc: "2.0",
      method: "session/update",
      params: {
        sessionId: "s",
        content: [
          {
            type: "text",
            content: "Invalid Request",
            metadata: { code: -32600, data: { details: "Session not found" } },
          },
        ],
        status: "error",
      },
    });
    expect(response).toBe(localServers.error);
  });

  test("is not added to any other response", () => {
    expect(translateBack("container", localServers.newSessionResult, "s")).toEqual([
      localServers.newSessionResult,
    ]);
  });

  test.each<[Json, Json]>([
    [
      { type: "text", text: "a", annotations: { priority: 1 }, _meta: { k: 1 } },
      { type: "text", content: "a", metadata: { annotations: { priority: 1 }, _meta: { k: 1 } } },
    ],
    [
      { type: "image", data: "AAAA", mimeType: "image/png" },
      { type: "image", content: "AAAA", metadata: { mimeType: "image/png" } },
    ],
    [
      { type: "audio", data: "AAAA", mimeType: "audio/wav" },
      {
        type: "file",
        content: "AAAA",
        metadata: { type: "audio", encoding: "base64", mimeType: "audio/wav" },
      },
    ],
    [
      { type: "resource_link", uri: "file:///a", name: "a" },
      { type: "file", content: "file:///a", metadata: { name: "a" } },
    ],
    [
      { type: "resource", resource: { uri: "file:///a", text: "t", mimeType: "text/plain" } },
      { type: "file", content: "t", metadata: { uri: "file:///a", mimeType: "text/plain" } },
    ],
    [
      { type: "resource", resource: { uri: "file:///a", blob: "AAAA" } },
      { type: "file", content: "AAAA", metadata: { uri: "file:///a", encoding: "base64" } },
    ],
    [
      { type: "future", x: 1 },
      { type: "text", content: "", metadata: { type: "future", x: 1 } },
    ],
  ])("has the block %j as %j", (content, block) => {
    expect(updated("container", { sessionUpdate: "agent_message_chunk", content }).params).toMatchObject({
      content: [block],
    });
  });

  test("repeats a prompt of this dialect as it was", () => {
    const { prompt } = forwarded("container", container.prompt).params as { prompt: Json[] };
    const back = prompt.slice(0, 5).map((content) => {
      const { params } = updated("container", { sessionUpdate: "user_message_chunk", content });
      return (params as { content: Json[] }).content[0];
    });
    expect(back).toMatchObject([
      { type: "text", content: "What does this do?", metadata: { role: "user" } },
      { type: "image", content: "iVBORw0KGgoAAAANSUhEUg==", metadata: { mimeType: "image/png" } },
      { type: "diff", content: "-a\n+b\n", metadata: { path: "/path/to/repo/a.txt" } },
      { type: "file", content: "file:///path/to/repo/b.txt" },
      { type: "thought", content: "perhaps it is old" },
    ]);
  });

  test("shows a tool call as a line of text and its content", () => {
    const update = (paramsOf(localServers.toolCallUpdate) as { update: Json }).update;
    const titled = { ...update, title: "Write fibonacci function", kind: "edit" };
    const { params } = updated("container", titled);
    expect(params).toMatchObject({
      status: "working",
      content: [
        {
          type: "text",
          content: "Write fibonacci function",
          metadata: {
            sessionUpdate: "tool_call_update",
            toolCallId: "tool-123",
            status: "completed",
            kind: "edit",
          },
        },
        { type: "diff", metadata: { toolCallId: "tool-123", path: "fibonacci.js", oldText: "" } },
      ],
    });
    expect((params as { content: Json[] }).content[1]?.content).toBe(
      "--- /dev/null\n+++ b/fibonacci.js\n@@ -0,0 +1,4 @@\n+function fibonacci(n) {\n+  if (n <= 1) return n;\n" +
        "+  return fibonacci(n - 1) + fibonacci(n - 2);\n+}\n\\ No newline at end of file\n",
    );
  });

  test("shows a terminal and a plan", () => {
    const terminal = { type: "terminal", terminalId: "t1" };
    expect(
      updated("container", { sessionUpdate: "tool_call", toolCallId: "t", title: "Run", content: [terminal] })
        .params,
    ).toMatchObject({
      content: [{ content: "Run" }, { type: "text", metadata: { ...terminal, toolCallId: "t" } }],
    });
    const entries = [
      { content: "a", priority: "high", status: "completed" },
      { content: "b", priority: "low", status: "pending" },
    ];
    expect(updated("container", { sessionUpdate: "plan", entries }).params).toMatchObject({
      content: [{ type: "text", content: "[x] a\n[ ] b", metadata: { sessionUpdate: "plan", entries } }],
      status: "working",
    });
  });

  test("has another name if it is no progress, so that no client takes it for work", () => {
    const update = { sessionUpdate: "session_info_update", title: "T" };
    expect(updated("container", update)).toEqual({
      jsonrpc: "2.0",
      method: "_session/update",
      params: { sessionId: "session-abc123", update },
    });
  });
});

describe("a diff in the container data model", () => {
  const diff = (oldText: string | null, newText: string) => {
    const content = [{ type: "diff", path: "/w/a", oldText, newText }];
    const { params } = updated("container", { sessionUpdate: "tool_call_update", toolCallId: "t", content });
    return (params as { content: Json[] }).content[1]?.content;
  };

  test.each([
    [null, "a\n", "--- /dev/null\n+++ b/w/a\n@@ -0,0 +1,1 @@\n+a\n"],
    ["a\n", "", "--- a/w/a\n+++ b/w/a\n@@ -1,1 +0,0 @@\n-a\n"],
    ["a\nb\nc\n", "a\nx\nc\n", "--- a/w/a\n+++ b/w/a\n@@ -1,3 +1,3 @@\n a\n-b\n+x\n c\n"],
    [
      "1\n2\n3\n4\n5\n6\n",
      "1\n2\n3\n4\n5\n6\n7\n",
      "--- a/w/a\n+++ b/w/a\n@@ -4,3 +4,4 @@\n 4\n 5\n 6\n+7\n",
    ],
    ["a", "a\n", "--- a/w/a\n+++ b/w/a\n@@ -1,1 +1,1 @@\n-a\n\\ No newline at end of file\n+a\n"],
    ["same\n", "same\n", ""],
  ])("compares %j and %j", (before, after, text) => {
    expect(diff(before, after)).toBe(text);
  });
});
