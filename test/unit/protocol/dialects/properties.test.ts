import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { type DialectName, translate, translateBack } from "../../../../src/protocol/dialects/index.ts";
import { isFault, readFrame } from "../../../../src/protocol/frame.ts";
import { propertyRuns } from "../../../fixtures/property-runs.ts";
import { frame } from "./fixtures.ts";

describe("any message in a dialect", () => {
  const names = fc.constantFrom<DialectName>("container", "web-gateway");
  const anything = fc.jsonValue({ maxDepth: 4, stringUnit: "binary" });
  const members = (keys: string[]) =>
    fc.oneof(anything, fc.dictionary(fc.constantFrom(...keys), anything, { noNullPrototype: true }));
  const block = members([
    "type",
    "content",
    "metadata",
    "text",
    "uri",
    "_meta",
    "resource",
    "path",
    "newText",
  ]);
  const blocks = fc.oneof(block, fc.array(block));

  test("is translated or refused when a client sends it, and keeps its id", () => {
    const methods = fc.constantFrom(
      ...[
        "session/new",
        "session/load",
        "session/prompt",
        "session/set_mode",
        "session/respond_to_permission",
        "_x",
      ],
    );
    const params = fc.oneof(
      members([
        "cwd",
        "workspaceUri",
        "mode",
        "mcpServers",
        "prompt",
        "message",
        "content",
        "contextFiles",
        "_meta",
      ]),
      fc.record(
        { content: blocks, contextFiles: fc.array(fc.string({ unit: "binary" })) },
        { requiredKeys: [] },
      ),
      fc.record({ content: fc.constant("a"), contextFiles: fc.constant(["/\ud800"]) }),
      fc.record({ mcpServers: fc.array(members(["type", "name", "command", "args", "env"])) }),
      fc.record({ requestId: fc.string(), response: fc.constantFrom("allow_once", "allow_always", "no") }),
    );
    fc.assert(
      fc.property(
        names,
        methods,
        params,
        fc.constantFrom("1.0", '"a"', "12345678901234567890"),
        (name, method, p, id) => {
          const raw = `{"jsonrpc":"2.0","id":${id},"method":"${method}","params":${JSON.stringify(p)}}`;
          const said = translate(name, frame(raw));
          if ("refuse" in said) expect(said.refuse.code).toBe(-32602);
          else if ("frame" in said) expect(said.frame).toMatchObject({ idText: id, method, kind: "request" });
        },
      ),
      propertyRuns(2000),
    );
  });

  test("becomes messages of its session when an agent sends it", () => {
    const sorts = [
      "agent_message_chunk",
      "agent_thought_chunk",
      "user_message_chunk",
      "tool_call",
      "tool_call_update",
      "plan",
    ];
    const update = fc.record(
      {
        sessionUpdate: fc.constantFrom(...sorts, "other"),
        content: blocks,
        title: anything,
        kind: anything,
        entries: blocks,
        _meta: anything,
      },
      { requiredKeys: ["sessionUpdate"] },
    );
    const message = fc.oneof(
      fc.record({
        method: fc.constant("session/update"),
        params: fc.record({ sessionId: fc.constant("s"), update }),
      }),
      fc.record({
        method: fc.constantFrom("session/update", "session/request_permission", "_x"),
        params: anything,
      }),
      fc.record({ id: fc.nat(), error: members(["code", "message", "data"]) }),
      fc.record({ id: fc.nat(), result: members(["stopReason", "sessionId"]) }),
    );
    fc.assert(
      fc.property(names, message, (name, content) => {
        const raw = JSON.stringify({ jsonrpc: "2.0", ...content });
        const said = translateBack(name, raw, "s");
        expect(said.length).toBeGreaterThan(0);
        for (const one of said) expect(isFault(readFrame(one))).toBe(false);
        if (!("method" in content)) expect(said.at(-1)).toBe(raw);
      }),
      propertyRuns(2000),
    );
  });
});
