import { describe, expect, test } from "vitest";
import { FACTS } from "../../../../../../src/session/core/events/catalogue.ts";
import type { LogEvent } from "../../../../../../src/session/core/events/event.ts";
import { isFrame } from "../../../../../../src/session/core/events/event.ts";
import {
  redacted,
  redactedLine,
  sessionFor,
} from "../../../../../../src/session/core/read/redaction/redaction.ts";
import { frame, lineOf, note, SESSION, says, update } from "./fixtures.ts";

/** Every string of an event is a mark of its own, so that a test sees which ones a redacted reader gets. */

const mark = (path: string) => `«${path}»`;
const marksIn = (text: string) =>
  [...new Set([...text.matchAll(/«([^»]*)»/g)].map(([, path]) => path as string))].sort();

/** The marks in what a client of the session and a reader of its events are shown. */
function shownMarks(event: LogEvent): string[] {
  const seen = redacted(event);
  const body = isFrame(seen) ? seen.frame.raw : JSON.stringify(seen.payload);
  const line = redactedLine(lineOf(event), event);
  expect(marksIn(line)).toEqual(marksIn(body));
  return marksIn(body);
}

/** A value with a mark in each of its fields. */
function marked(names: readonly string[], more: object = {}): object {
  return { ...Object.fromEntries(names.map((name) => [name, mark(name)])), ...more };
}

/** Fields of facts that name people, machines, directories or commands, or quote what processes wrote. */
const NEVER = new Set([
  ...["tenant", "owner", "cwd", "root", "host", "command", "agentCommand", "subject", "by", "key", "stderr"],
  ...["acpSessionId", "agentSessionId", "previous", "run", "pid"],
]);

describe("a redacted reader", () => {
  test.each(Object.entries(FACTS))("of %s sees the fields that the catalogue shows", (kind, { payload }) => {
    const fields = Object.keys(payload.shape);
    const seen = shownMarks(note(kind, { ...marked(fields), _meta: mark("_meta"), vendor: mark("vendor") }));
    const hidden = fields.filter((field) => !seen.includes(field));
    expect(seen.filter((field) => NEVER.has(field) || !fields.includes(field))).toEqual([]);
    expect(hidden).toEqual(expect.arrayContaining(fields.filter((field) => NEVER.has(field))));
  });

  test("sees of facts no text but these", () => {
    const shown = Object.entries(FACTS).flatMap(([kind, { payload }]) =>
      shownMarks(note(kind, marked(Object.keys(payload.shape)) as Record<string, unknown>)).map(
        (field) => field,
      ),
    );
    expect([...new Set(shown)].sort()).toMatchInlineSnapshot(`
      [
        "action",
        "agent",
        "anew",
        "announcedAt",
        "answer",
        "attempt",
        "byKind",
        "chars",
        "clientIo",
        "closeMeans",
        "code",
        "connection",
        "default",
        "delayMs",
        "delivered",
        "detailCode",
        "dropped",
        "duplicateChunks",
        "exitCode",
        "expected",
        "first",
        "frame",
        "idleMs",
        "io",
        "item",
        "last",
        "lost",
        "message",
        "method",
        "mode",
        "name",
        "ok",
        "onTimeout",
        "opening",
        "origin",
        "position",
        "process",
        "processRequest",
        "prompt",
        "reason",
        "replay",
        "request",
        "role",
        "seq",
        "setting",
        "signal",
        "stopReason",
        "synthetic",
        "terminalId",
        "textPreview",
        "timeoutMs",
        "title",
        "toolCallId",
        "turnId",
        "until",
        "violation",
        "why",
        "workspace",
      ]
    `);
  });

  const annotations = { lastModified: mark("lastModified"), vendor: mark("annotations.vendor") };
  const _meta = { secret: mark("_meta") };
  const blocks = {
    text: { type: "text", text: mark("text"), annotations, _meta },
    image: { type: "image", data: mark("data"), mimeType: mark("mimeType"), uri: mark("uri"), _meta },
    audio: { type: "audio", data: mark("data"), mimeType: mark("mimeType"), _meta },
    link: {
      type: "resource_link",
      ...marked(["uri", "name", "title", "description", "mimeType", "vendor"]),
      _meta,
    },
    file: { type: "resource", resource: { ...marked(["uri", "mimeType", "text", "vendor"]), _meta }, _meta },
    blob: { type: "resource", resource: { ...marked(["uri", "mimeType", "blob"]), _meta }, _meta },
    unknown: { type: "vendor_block", vendor: mark("vendor"), _meta },
  };
  const SHOWN: Readonly<Record<keyof typeof blocks, string[]>> = {
    text: ["lastModified", "text"],
    image: ["data", "mimeType", "uri"],
    audio: ["data", "mimeType"],
    link: ["description", "mimeType", "name", "title", "uri"],
    file: ["mimeType", "uri"],
    blob: ["mimeType", "uri"],
    unknown: [],
  };

  test.each(Object.entries(blocks))(
    "sees of a content block neither files nor _meta: %s",
    (name, content) => {
      const shown = SHOWN[name as keyof typeof blocks];
      expect(
        shownMarks(says("session/prompt", { sessionId: "s", prompt: [content], _meta, vendor: mark("v") })),
      ).toEqual(shown);
      for (const sessionUpdate of [
        "user_message_chunk",
        "agent_message_chunk",
        "agent_thought_chunk",
        "compaction_summary_chunk",
      ])
        expect(shownMarks(update({ sessionUpdate, content, _meta, vendor: mark("v") }))).toEqual(shown);
    },
  );

  test.each([
    ["file:///a/b.txt?token=«query»#«fragment»", "file:///a/b.txt"],
    ["https://me:«password»@x.example/a", "https://x.example/a"],
    ["data:text/plain,«contents»", "data:"],
  ])("sees of an address neither contents nor credentials: %s", (uri, shown) => {
    const contents = [
      { type: "resource", resource: { uri, text: "" } },
      { type: "resource_link", uri, name: "n" },
      { type: "image", data: "AA==", mimeType: "image/png", uri },
    ];
    for (const content of contents) {
      const event = says("session/prompt", { sessionId: SESSION, prompt: [content] });
      expect(shownMarks(event)).toEqual([]);
      expect(redactedLine(lineOf(event), event)).toContain(JSON.stringify(shown));
    }
    const plan = update({ sessionUpdate: "plan_update", plan: { type: "file", planId: "p", uri } });
    expect(shownMarks(plan)).toEqual([]);
  });

  test("sees of a setting's value only what the agent offers to everybody", () => {
    const option = { id: mark("id"), name: mark("name"), type: "select" };
    const offered = [
      { value: mark("a"), name: "A" },
      { group: "g", name: "G", options: [{ value: mark("b"), name: "B" }] },
    ];
    const shown = (more: object) => {
      const configOptions = [{ ...option, ...more }];
      const marks = shownMarks(update({ sessionUpdate: "config_option_update", configOptions }));
      expect(shownMarks(frame("in", { id: 1, result: { configOptions } }))).toEqual(marks);
      return marks;
    };
    expect(shown({ type: "text", currentValue: mark("value") })).toEqual(["id", "name"]);
    expect(shown({ options: [], currentValue: mark("value") })).toEqual(["id", "name"]);
    expect(shown({ options: offered, currentValue: mark("value") })).toEqual(["a", "b", "id", "name"]);
    for (const name of ["a", "b"])
      expect(
        JSON.stringify(
          redacted(
            update({
              sessionUpdate: "config_option_update",
              configOptions: [{ ...option, options: offered, currentValue: mark(name) }],
            }),
          ),
        ),
      ).toContain(`"currentValue":"${mark(name)}"`.replaceAll('"', '\\"'));
    const set = { sessionId: SESSION, configId: mark("id"), type: "text", value: mark("value") };
    expect(shownMarks(says("session/set_config_option", set))).toEqual(["id"]);
  });

  test("sees the gateway's id in place of the agent's own, and the ids of sub-agents", () => {
    const own = mark("own");
    const line = (event: LogEvent, context: object = { acpSessionId: own }) => {
      const placed = { ...event, context: { ...event.context, ...context } } as LogEvent;
      return redactedLine(lineOf(placed), placed);
    };
    const named = { senderSessionId: own, recipientSessionId: "child" };
    const events = [
      frame("in", { method: "session/update", params: { sessionId: own, update: {} } }),
      frame("in", { id: 1, method: "fs/read_text_file", params: { sessionId: own, path: "/a" } }),
      frame("in", { id: 1, method: "vendor/ask", params: { sessionId: own } }),
      frame("in", { id: 1, result: { sessionId: own } }),
      frame("out", { id: 1, method: "session/load", params: { sessionId: own } }, "gateway"),
    ];
    for (const event of events) {
      expect(marksIn(line(event))).toEqual([]);
      expect(line(event)).toContain(`"sessionId":"${SESSION}"`);
    }
    // Before the session is open, whatever the agent names is this session.
    expect(marksIn(line(events[0] as LogEvent, {}))).toEqual([]);
    const message = { sessionUpdate: "session_message", messageId: "m", ...named };
    const child = frame("in", { method: "session/update", params: { sessionId: "child", update: message } });
    expect(line(child)).toContain('"sessionId":"child"');
    expect(line(child)).toContain(`"senderSessionId":"${SESSION}","recipientSessionId":"child"`);
  });

  test("sees no directories, ids of the agent or routes of files", () => {
    const opening = {
      ...marked(["cwd", "vendor"]),
      additionalDirectories: [mark("dir")],
      mcpServers: [{ name: mark("server") }],
      _meta,
    };
    for (const method of ["session/new", "session/load", "session/resume", "session/fork"])
      expect(shownMarks(says(method, opening))).toEqual([]);
    const event = frame("in", { id: 1, method: "fs/read_text_file", params: { path: "/a" } });
    const placed = {
      ...event,
      context: { acpSessionId: mark("acpSessionId"), agentSessionId: mark("agentSessionId"), turnId: null },
      route: { path: mark("path") },
    } as LogEvent;
    expect(marksIn(redactedLine(lineOf(placed), placed))).toEqual([]);
  });

  test("sees in the view of a session no people, commands, directories, hosts or ids of the agent", () => {
    const caller = {
      tenant: "t",
      subject: "s",
      workspaces: ["w"],
      scopes: [],
      expires: 0,
      redacted: true,
    } as const;
    const view = {
      title: mark("title"),
      agent: marked(["command", "name"]),
      workspace: marked(["cwd", "name"]),
      identity: marked(["acpSessionId", "agentSessionId", "owner", "tenant"]),
      host: marked(["name_of_host", "run", "root"], { name: mark("host") }),
      clients: [{ subject: mark("subject"), ...marked(["role", "cwd"]) }],
      owner: mark("owner"),
    };
    expect(marksIn(sessionFor(caller, view))).toEqual(["name", "role", "title"]);
  });
});
