import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { type Frame, readFrame } from "../../../../../../src/protocol/frame.ts";
import { isLineFault, readEnvelope } from "../../../../../../src/session/core/events/envelope.ts";
import { isFrame, type LogEvent } from "../../../../../../src/session/core/events/event.ts";
import { redacted, redactedLine } from "../../../../../../src/session/core/read/redaction/redaction.ts";
import type { Json } from "../../../../../fixtures/json.ts";
import { propertyRuns } from "../../../../../fixtures/property-runs.ts";
import { faults } from "../../../../../fixtures/schema.ts";
import {
  answers,
  asks,
  frame,
  HARMLESS,
  lineOf,
  MARK,
  note,
  OTHERS,
  SAID,
  SECRET,
  says,
  seen,
  TOOL,
  update,
} from "./fixtures.ts";

// ---- wherever it is put -------------------------------------------------------------------------------

/** Any value that contains the secret somewhere, as a value or as a name. */
const junk: fc.Arbitrary<unknown> = fc.letrec((tie) => ({
  any: fc.oneof(
    { depthSize: "small", withCrossShrink: true },
    fc.constant(SECRET),
    fc.string().map((text) => `${text}${SECRET}`),
    fc.dictionary(fc.string(), tie("any"), { minKeys: 1, maxKeys: 3 }),
    tie("any").map((value) => ({ [SECRET]: value, _meta: value, content: value })),
    fc.array(tie("any"), { minLength: 1, maxLength: 3 }),
  ),
})).any;

/** Names that are unknown everywhere, or unknown in the place where they are put. */
const unknownName = fc.constantFrom(
  "_meta",
  "rawInput",
  "rawOutput",
  "vendor",
  "__proto__",
  "stderr",
  SECRET,
);

/** The objects in a message, from the outermost on. */
function objectsIn(value: unknown): Json[] {
  if (typeof value !== "object" || value === null) return [];
  const inside = Object.values(value).flatMap(objectsIn);
  return Array.isArray(value) ? inside : [value as Json, ...inside];
}

/** A copy of the event with one more member in one of its objects. */
function withMore(event: LogEvent, which: number, name: string, value: unknown): LogEvent {
  const body = JSON.parse(isFrame(event) ? event.frame.raw : JSON.stringify(event.payload)) as Json;
  const objects = objectsIn(body);
  const target = objects[which % objects.length] as Json;
  Object.defineProperty(target, name, { value, enumerable: true, configurable: true, writable: true });
  if (!isFrame(event)) return { ...event, payload: body } as LogEvent;
  return { ...event, frame: readFrame(JSON.stringify(body)) as Frame };
}

function expectHidden(event: LogEvent): void {
  const shown = redacted(event);
  expect(isFrame(shown) ? shown.frame.raw : JSON.stringify(shown.payload)).not.toContain(SECRET);
  const line = redactedLine(lineOf(event), event);
  expect(line).not.toContain(SECRET);
  const read = readEnvelope(line);
  if (isLineFault(read)) throw new Error(read.fault);
  expect(lineOf(shown)).toContain(JSON.stringify(MARK));
}

describe("a secret", () => {
  test("is never shown wherever it is added to a message or a fact", () => {
    const events = fc.constantFrom(...HARMLESS, ...OTHERS);
    fc.assert(
      fc.property(events, fc.nat(), unknownName, junk, (event, which, name, value) => {
        const more = withMore(event, which, name, value);
        const shown = redacted(more);
        expect(isFrame(shown) ? shown.frame.raw : JSON.stringify(shown.payload)).not.toContain(SECRET);
        expect(redactedLine(lineOf(more), more)).not.toContain(SECRET);
      }),
      propertyRuns(2000),
    );
  });

  const hidden: Record<string, (value: unknown) => LogEvent> = {
    "a tool's content": (content) => update({ sessionUpdate: "tool_call", ...TOOL, content }),
    "a tool's input": (rawInput) => update({ sessionUpdate: "tool_call", ...TOOL, rawInput }),
    "a tool's output": (rawOutput) =>
      update({ sessionUpdate: "tool_call_update", toolCallId: "c", rawOutput }),
    "a chunk's _meta": (_meta) => update({ sessionUpdate: "agent_message_chunk", content: SAID, _meta }),
    "an unknown update": (value) => update({ sessionUpdate: "vendor_update", value }),
    "an unknown content block": (value) =>
      update({ sessionUpdate: "agent_message_chunk", content: { type: "vendor", value } }),
    "a message to another agent": (content) =>
      update({ sessionUpdate: "session_message", messageId: "m", content }),
    "a file that is written": (content) =>
      asks("fs/write_text_file", { sessionId: "s", path: "/a", content }),
    "a command": (command) => asks("terminal/create", { sessionId: "s", command, args: [command] }),
    "a form": (message) =>
      asks("elicitation/create", { sessionId: "s", mode: "form", message, requestedSchema: message }),
    "a form's address": (url) =>
      asks("elicitation/create", { sessionId: "s", mode: "url", message: "", elicitationId: "e", url }),
    "an unknown request of the agent": (params) => asks("_vendor/ask", { params }),
    "an unknown request of a client": (params) => says("_vendor/ask", { params }),
    "an unknown answer of the agent": (value) => answers("in", { value }),
    "the agent's answer, as a whole": (value) => answers("in", [value]),
    "an answer to the agent": (content) => answers("out", { content }),
    "an answer to the agent, as a whole": (value) => answers("out", [value]),
    "an error's data": (data) => frame("in", { id: 7, error: { code: 1, message: "m", data } }),
    "an error to the agent": (message) => frame("out", { id: 7, error: { code: 1, message } }),
    "what is no message": (value) => frame("in", { value }),
    "MCP servers": (value) => says("session/new", { cwd: "/", mcpServers: [value] }),
    "an unknown note": (value) => note("vendor.unheard_of", { value }),
    noise: (text) => note("runtime.noise", { text }),
    "stderr in a note": (stderr) => note("error", { message: "m", stderr }),
    "stderr at the end": (stderr) => note("queue.owner.stopped", { run: "r", stderr }),
    "a failed turn's error": (data) =>
      note("turn.failed", { turnId: "t", error: { code: 1, message: "m", data } }),
  };
  test.each(Object.entries(hidden))("is never shown in %s", (_, make) => {
    fc.assert(fc.property(junk, (value) => expectHidden(make(value))));
  });

  test("is not shown of a foreign line with duplicate or unknown members", () => {
    const event = update({ sessionUpdate: "agent_message_chunk", content: SAID });
    const line = lineOf(event);
    const tool = `{"jsonrpc":"2.0","method":"session/update","params":{"update":{"sessionUpdate":"tool_call","content":"${SECRET}"}}}`;
    for (const odd of [
      line.replace("{", `{"extra":"${SECRET}",`),
      line.replace('"payload":{', `"payload":{"extra":{"a":"${SECRET}"},`),
      line.replace('"payload":{', `"payload":{"message":"${SECRET}","direction":"in"},"payload":{`),
      line.replace('"message":', `"message":${tool},"message":`),
      line.replace(
        '"params":',
        `"params":{"update":{"content":{"type":"text","text":"${SECRET}"}}},"params":`,
      ),
      line.replace('"direction":"in"', `"direction":"${SECRET}"`),
      line.replace('"message":{', `"message":["${SECRET}"],"was":{`),
    ]) {
      expect(odd).toContain(SECRET);
      const read = readEnvelope(odd);
      if (isLineFault(read)) throw new Error(read.fault);
      const left = redactedLine(odd, read.event);
      expect(left).not.toContain(SECRET);
      expect(isLineFault(readEnvelope(left))).toBe(false);
    }
  });
});

describe("a redacted message", () => {
  test("is valid by the protocol's schema", () => {
    const events = fc.constantFrom(...HARMLESS);
    fc.assert(
      fc.property(events, fc.nat(), unknownName, junk, (event, which, name, value) => {
        expect(faults(seen(event))).toEqual([]);
        expect(faults(seen(withMore(event, which, name, value)))).toEqual([]);
      }),
      propertyRuns(500),
    );
    for (const [event, method] of [
      [asks("fs/write_text_file", { sessionId: "s", path: "/a", content: SECRET })],
      [
        asks("elicitation/create", {
          ...{ sessionId: "s", mode: "form", message: SECRET },
          requestedSchema: { type: "object", properties: { a: { type: "string", title: SECRET } } },
        }),
      ],
      [
        asks("elicitation/create", {
          sessionId: "s",
          mode: "url",
          message: SECRET,
          elicitationId: "e",
          url: "u:v",
        }),
      ],
      [answers("in", { stopReason: "end_turn", _meta: { x: SECRET } }), "session/prompt"],
      [answers("in", { sessionId: "s", modes: null, vendor: SECRET }), "session/new"],
      [frame("in", { id: 7, error: { code: 1, message: "m", data: SECRET } })],
    ] as [LogEvent, string?][]) {
      expect(faults(seen(event), method)).toEqual([]);
      expect(JSON.stringify(seen(event))).not.toContain(SECRET);
    }
  });
});
