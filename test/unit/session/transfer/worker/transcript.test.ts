import { describe, expect, test } from "vitest";
import { markdownDiff } from "../../../../../src/session/transfer/worker/markdown-diff.ts";
import { Transcript } from "../../../../../src/session/transfer/worker/transcript.ts";
import type { Json } from "../../../../fixtures/json.ts";

const SESSION = {
  acpxRecordId: "11111111-2222-4333-8444-555555555555",
  title: "Mend the\nbuild",
  agent: { name: "demo", command: null },
  workspace: { name: "backend", cwd: "/repo" },
  lifecycle: { createdAt: "2026-02-27T10:00:00.000Z", lastUsedAt: "2026-02-27T11:00:00.000Z" },
};

/** Writes a log as a session does, with only the events a transcript reads. */
class Log {
  readonly events: Json[] = [];

  note(kind: string, payload: Json): number {
    return this.events.push({ seq: this.events.length + 1, kind, payload });
  }

  frame(direction: string, message: Json, route: Json = {}): number {
    return this.note("acp.frame", { direction, message, ...route });
  }

  update(update: Json, route: Json = {}): void {
    this.frame("in", { method: "session/update", params: { update } }, route);
  }

  text(text: string, sessionUpdate = "agent_message_chunk", more: Json = {}): void {
    this.update({ sessionUpdate, content: { type: "text", text }, ...more });
  }

  prompt(text: string, route: Json = {}): number {
    const prompt = [{ type: "text", text }];
    return this.frame("out", { id: 7, method: "session/prompt", params: { prompt } }, route);
  }

  answer(re: number, stopReason = "end_turn"): void {
    this.frame("in", { id: re, result: { stopReason } }, { re });
  }

  transcript(): string {
    const transcript = new Transcript(SESSION);
    return (
      transcript.start() + this.events.map((event) => transcript.push(event)).join("") + transcript.end()
    );
  }

  body(): string {
    return this.transcript().split("\n").slice(7).join("\n");
  }
}

describe("a transcript", () => {
  test("has room for any number of code fences, and for a value that is too deep to be written", () => {
    const log = new Log();
    const output = "` ``` ".repeat(200_000);
    log.update({ sessionUpdate: "tool_call", toolCallId: "a", status: "completed", rawOutput: output });
    const content = [{ type: "content", content: { type: "text", text: output } }];
    log.update({ sessionUpdate: "tool_call", toolCallId: "b", status: "completed", content });
    const rawOutput = JSON.parse("[".repeat(200_000) + "]".repeat(200_000)) as unknown;
    log.update({ sessionUpdate: "tool_call", toolCallId: "c", status: "completed", rawOutput });
    expect(log.body()).toContain("````\n` ``` ");
    expect(log.body()).toContain("nested too deeply");
  });

  test("has the output of terminals as clients without terminals get it", () => {
    const log = new Log();
    const call = { sessionUpdate: "tool_call", toolCallId: "a", title: "Build" };
    const terminal = [{ type: "terminal", terminalId: "x" }];
    const _meta = { terminal_info: { terminal_id: "x" } };
    log.update(call);
    log.update({ ...call, title: "Announcement", _meta }, { having: "terminal-output" });
    const content = [{ type: "content", content: { type: "text", text: "the output" } }];
    log.update(
      { sessionUpdate: "tool_call_update", toolCallId: "a", content },
      { lacking: "terminal-output" },
    );
    const end = {
      sessionUpdate: "tool_call_update",
      toolCallId: "a",
      status: "completed",
      content: terminal,
    };
    log.update(end, { plain: "before" });
    expect(log.body()).toContain("the output");
    expect(log.body()).not.toMatch(/terminal|Announcement/);
  });

  test("reads like the conversation", () => {
    const log = new Log();
    const first = log.prompt("Please mend the build.");
    log.note("turn.started", { turnId: "t1", prompt: first });
    log.text("Let me think.", "agent_thought_chunk");
    log.text(" Yes.", "agent_thought_chunk");
    log.text("I will ");
    log.text("**edit** a file.");
    log.update({ sessionUpdate: "plan", entries: [{ content: "Look", status: "in_progress" }] });
    log.update({
      sessionUpdate: "tool_call",
      toolCallId: "c1",
      title: "Edit config",
      kind: "edit",
      status: "pending",
      locations: [{ path: "/repo/a.ts", line: 3 }],
    });
    const asking = log.frame("in", {
      id: "p",
      method: "session/request_permission",
      params: {
        toolCall: { toolCallId: "c1" },
        options: [{ optionId: "ok", name: "Allow", kind: "allow_once" }],
      },
    });
    log.frame(
      "out",
      { id: `s:${asking}`, result: { outcome: { outcome: "selected", optionId: "ok" } } },
      { re: asking },
    );
    log.update({
      sessionUpdate: "tool_call_update",
      toolCallId: "c1",
      status: "completed",
      content: [
        { type: "diff", path: "/repo/a.ts", oldText: "one\ntwo\nthree\n", newText: "one\n2\nthree\n" },
      ],
    });
    log.update({
      sessionUpdate: "tool_call_update",
      toolCallId: "c2",
      title: "Run `tests`",
      kind: "execute",
      status: "in_progress",
      content: [{ type: "content", content: { type: "text", text: "ok ```\n" } }],
    });
    log.update({
      sessionUpdate: "plan",
      entries: [
        { content: "Look", status: "completed" },
        { content: "Mend", status: "in_progress" },
      ],
    });
    log.text("Done.");
    log.update({
      sessionUpdate: "agent_message_chunk",
      content: { type: "image", mimeType: "image/png", data: "AAAA".repeat(1000) },
    });
    log.text("again", "agent_message_chunk", {});
    log.answer(first);
    log.note("turn.completed", { turnId: "t1", prompt: first, stopReason: "end_turn" });
    expect(log.transcript()).toMatchInlineSnapshot(`
      "# Mend the build

      - Session: 11111111-2222-4333-8444-555555555555
      - Agent: demo
      - Workspace: backend, /repo
      - Created: 2026-02-27T10:00:00.000Z
      - Last used: 2026-02-27T11:00:00.000Z

      ## User

      Please mend the build.

      ## Agent

      <details><summary>Thought</summary>

      Let me think. Yes.

      </details>

      I will **edit** a file.

      > **Permission** for Edit config: Allow (allow_once)

      **Tool: Edit config** (edit, completed)

      \`/repo/a.ts:3\`

      \`\`\`diff
      --- a/repo/a.ts
      +++ b/repo/a.ts
      @@ -1,3 +1,3 @@
       one
      -two
      +2
       three
      \`\`\`

      Done.

      *[image: image/png, 3 KB]*

      again

      **Tool: Run \`tests\`** (execute, in_progress)

      \`\`\`\`
      ok \`\`\`
      \`\`\`\`

      **Plan**

      - [x] Look
      - [ ] Mend *(in progress)*

      *Turn ended: end_turn.*
      "
    `);
  });

  test("shows questions with the kind of their answer", () => {
    const log = new Log();
    log.prompt("go");
    const ask = (message: string) =>
      log.frame("in", { id: message, method: "elicitation/create", params: { message, mode: "form" } });
    const [first, second] = [ask("Who are you?"), ask("Where?")];
    log.frame("out", { id: "x", error: { code: -32601 } }, { re: first, stop: "declined" });
    const result = { action: "accept", content: { name: "[secret:1]" } };
    log.frame("out", { id: "x", result }, { re: first });
    expect(second).toBeGreaterThan(first);
    expect(log.body().match(/^> .*$/gm)).toEqual([
      "> **Question** Who are you?: accept",
      "> **Question** Where?: not answered",
    ]);
  });

  test("shows a queued prompt at its turn, no prompt that was dropped, and marks a prompt that still waits", () => {
    const log = new Log();
    const first = log.prompt("first");
    log.note("turn.started", { turnId: "t1", prompt: first });
    const second = log.prompt("second", { stop: "held" });
    const third = log.prompt("third", { stop: "held" });
    const fourth = log.prompt("fourth", { stop: "held" });
    log.text("working on the first");
    log.frame("in", { id: 7, error: { code: -32800, message: "Taken out" } }, { re: third });
    log.note("turn.failed", {
      turnId: "t3",
      prompt: third,
      reason: "dropped",
      error: { message: "Taken out" },
    });
    log.answer(first);
    log.note("turn.started", { turnId: "t2", prompt: second });
    log.note("turn.failed", {
      turnId: "t2",
      prompt: second,
      reason: "agent_lost",
      error: { message: "It was lost" },
    });
    expect(fourth).toBeGreaterThan(0);
    expect(log.body()).toMatchInlineSnapshot(`
      "
      ## User

      first

      ## Agent

      working on the first

      *Turn ended: end_turn.*

      ## User

      second

      > **Turn failed**: It was lost

      ## User

      fourth

      *Still in the queue.*
      "
    `);
  });

  test("handles frames of another system, and previews", () => {
    const log = new Log();
    log.prompt("by id");
    log.update({ sessionUpdate: "from_the_future", x: 1 });
    log.text("answer", "agent_message_chunk", { messageId: "a" });
    log.text("another message", "agent_message_chunk", { messageId: "b" });
    log.frame("in", { id: 7, result: { stopReason: "refusal" } });
    log.note("turn.started", { synthetic: true, turnId: "s", prompt: null, textPreview: "old question" });
    log.note("turn.completed", { synthetic: true, turnId: "s", prompt: null, textPreview: "old answer" });
    log.update(
      { sessionUpdate: "agent_message_chunk", content: { type: "text", text: "said twice" } },
      { stop: "replay" },
    );
    log.frame("in", { method: 5, params: "nonsense" });
    log.note("error", { message: "The agent could not be started" });
    expect(log.body()).toMatchInlineSnapshot(`
      "
      ## User

      by id

      ## Agent

      answer

      another message

      *Turn ended: refusal.*

      ## User

      old question *(preview)*

      ## Agent

      old answer *(preview)*

      > **Error**: The agent could not be started
      "
    `);
  });
});

describe("a diff", () => {
  test("leaves out common lines except for some context", () => {
    const before = Array.from({ length: 20 }, (_, i) => `line ${i + 1}`);
    const after = before.with(9, "changed");
    expect(markdownDiff("src/a.ts", before.join("\n"), after.join("\n"))).toMatchInlineSnapshot(`
      "--- a/src/a.ts
      +++ b/src/a.ts
      @@ -7,7 +7,7 @@
       line 7
       line 8
       line 9
      -line 10
      +changed
       line 11
       line 12
       line 13"
    `);
  });

  test.each([
    ["a new file", null, "a\nb\n", "@@ -0,0 +1,2 @@\n+a\n+b"],
    ["an emptied file", "a\n", "", "@@ -1,1 +0,0 @@\n-a"],
    ["lines added at the end", "a\n", "a\nb\n", "@@ -1,1 +1,2 @@\n a\n+b"],
    ["a repeated line", "a\na\n", "a\na\na\n", "@@ -1,2 +1,3 @@\n a\n a\n+a"],
  ])("shows %s", (_, before, after, hunk) => {
    expect(markdownDiff("/f", before, after).split("\n").slice(2).join("\n")).toBe(hunk);
  });
});
