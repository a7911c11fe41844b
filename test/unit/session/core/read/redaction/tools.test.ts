import { describe, expect, test } from "vitest";
import { type Frame, readFrame } from "../../../../../../src/protocol/frame.ts";
import { redactInitializeResult } from "../../../../../../src/protocol/initialize-result.ts";
import { redactOptions } from "../../../../../../src/protocol/permission.ts";
import type { LogEvent } from "../../../../../../src/session/core/events/event.ts";
import { redacted, redactedLine } from "../../../../../../src/session/core/read/redaction/redaction.ts";
import type { Json } from "../../../../../fixtures/json.ts";
import {
  answers,
  asks,
  frame,
  HARMLESS,
  LOCATIONS,
  lineOf,
  MARK,
  note,
  OPTION,
  OTHERS,
  SECRET,
  SESSION,
  says,
  seen,
  TOOL,
  update,
} from "./fixtures.ts";

const paramsOf = (event: LogEvent) => seen(event).params as Json;
const updateIn = (event: LogEvent) => paramsOf(event).update as Json;

const PROMPT = says("session/prompt", {
  sessionId: SESSION,
  prompt: [
    { type: "text", text: "look at this" },
    { type: "resource_link", uri: "file:///a", name: "a", size: 3 },
  ],
});

describe("a harmless event", () => {
  test.each([...HARMLESS, ...OTHERS, PROMPT].map((event) => [lineOf(event), event] as const))(
    "stays unchanged: %s",
    (line, event) => {
      expect(redacted(event)).toBe(event);
      expect(redactedLine(line, event)).toBe(line);
    },
  );

  test("keeps the text of its sender", () => {
    const raw = '{ "jsonrpc":"2.0",\n"id":12345678901234567890, "result": {"stopReason" :"end_turn"} }';
    const event = { ...answers("in", {}), frame: readFrame(raw) as Frame } as LogEvent;
    expect(redacted(event)).toBe(event);
  });
});

describe("tool data", () => {
  const details = {
    content: [{ type: "diff", path: "/a", oldText: null, newText: SECRET }],
    rawInput: { command: SECRET },
    rawOutput: SECRET,
    name: SECRET,
    _meta: { claudeCode: { toolResponse: SECRET } },
  };

  test("is no part of a tool call", () => {
    for (const sessionUpdate of ["tool_call", "tool_call_update"])
      expect(updateIn(update({ sessionUpdate, ...TOOL, ...details, locations: LOCATIONS }))).toEqual({
        sessionUpdate,
        ...TOOL,
        locations: LOCATIONS,
        _meta: MARK,
      });
  });

  test("is no part of a permission request, in the message or beside it", () => {
    const params = {
      sessionId: "s",
      toolCall: { ...TOOL, ...details },
      options: [{ ...OPTION, _meta: details }],
    };
    const left = { toolCall: { ...TOOL, _meta: MARK }, options: [{ ...OPTION, _meta: MARK }] };
    expect(paramsOf(asks("session/request_permission", params))).toEqual({ sessionId: "s", ...left });
    const { toolCall, options } = params;
    expect(seen(note("permission.requested", { request: 1, toolCall, options }))).toEqual({
      request: 1,
      ...left,
    });
    expect(JSON.parse(redactOptions(JSON.stringify(options)))).toEqual(left.options);
  });

  test("is no part of requests for files and terminals", () => {
    const file = { sessionId: "s", path: "/a" };
    expect(paramsOf(asks("fs/read_text_file", { ...file, limit: 3 }))).toEqual({ ...file, _meta: MARK });
    expect(paramsOf(asks("fs/write_text_file", { ...file, content: SECRET }))).toEqual({
      ...file,
      content: "",
      _meta: MARK,
    });
    const command = { sessionId: "s", command: SECRET, args: [SECRET], env: [], cwd: SECRET };
    expect(paramsOf(asks("terminal/create", command))).toEqual({ sessionId: "s", command: "", _meta: MARK });
  });

  test("is no part of answers to the agent", () => {
    for (const result of [{ content: SECRET }, { output: SECRET, truncated: false }, { terminalId: SECRET }])
      expect(seen(answers("out", result)).result).toEqual({ _meta: MARK });
    expect(seen(answers("out", { action: "accept", content: { name: SECRET } })).result).toEqual({
      action: "accept",
      _meta: MARK,
    });
    for (const result of [SECRET, [SECRET]])
      expect(seen(answers("out", result)).result).toEqual({ _meta: MARK });
    expect(seen(frame("out", { id: 7, error: { code: 1, message: SECRET, data: SECRET } })).error).toEqual({
      code: 1,
      message: "",
      data: MARK,
    });
  });

  test("is not in an error's data", () => {
    const error = { code: 1, message: "It ended", data: { stderr: SECRET } };
    const left = { code: 1, message: "It ended", data: MARK };
    expect(seen(frame("in", { id: 7, error })).error).toEqual(left);
    const failed = { turnId: "t", prompt: 1, reason: "agent_exited" };
    expect(seen(note("turn.failed", { ...failed, error }))).toEqual({ ...failed, error: left });
  });

  test("is no part of the process's noise and stderr", () => {
    expect(seen(note("runtime.noise", { text: SECRET }))).toEqual({ _meta: MARK });
    expect(seen(note("error", { message: "It ended", stderr: SECRET }))).toEqual({
      message: "It ended",
      _meta: MARK,
    });
    const stopped = { code: 1, signal: null, reason: "exit code 1", expected: false };
    expect(seen(note("queue.owner.stopped", { ...stopped, stderr: SECRET }))).toEqual({
      ...stopped,
      _meta: MARK,
    });
    expect(seen(frame("in", { words: SECRET }))).toEqual({ jsonrpc: "2.0", _meta: MARK });
  });

  test("is no part of tool settings", () => {
    const params = { cwd: "/", mcpServers: [{ name: "n", command: "c", args: [SECRET], env: [] }] };
    expect(paramsOf(says("session/new", { ...params, _meta: { systemPrompt: SECRET } }))).toEqual({
      cwd: "",
      mcpServers: [],
      _meta: MARK,
    });
    expect(paramsOf(says("authenticate", { methodId: "m", _meta: { "api-key": SECRET } }))).toEqual({
      methodId: "m",
      _meta: MARK,
    });
  });

  test("is assumed in any unknown message", () => {
    expect(updateIn(update({ sessionUpdate: "vendor_update", title: SECRET }))).toEqual({
      sessionUpdate: "vendor_update",
      _meta: MARK,
    });
    for (const event of [
      asks("_vendor/ask", { sessionId: "s", text: SECRET }),
      frame("in", { method: "_vendor/tell", params: { sessionId: "s", text: SECRET } }),
      says("_vendor/ask", { sessionId: "s", text: SECRET }),
    ])
      expect(paramsOf(event)).toEqual({ sessionId: "s", _meta: MARK });
    expect(paramsOf(asks("_vendor/ask", [SECRET]))).toEqual({ _meta: MARK });
    expect(seen(note("vendor.unheard_of", { text: SECRET }))).toEqual({ _meta: MARK });
    const initialized = { protocolVersion: 1, agentCapabilities: { a: { _meta: SECRET } }, _meta: SECRET };
    expect(JSON.parse(redactInitializeResult(JSON.stringify(initialized)))).toEqual({
      protocolVersion: 1,
      agentCapabilities: { a: { _meta: MARK } },
      _meta: MARK,
    });
  });

  test("is hidden even when an agent uses the gateway's own names", () => {
    const news = { sessionUpdate: "session_info_update", _meta: { "acp-edge/message": SECRET } };
    expect(updateIn(update(news))).toEqual({ sessionUpdate: "session_info_update", _meta: MARK });
  });
});
