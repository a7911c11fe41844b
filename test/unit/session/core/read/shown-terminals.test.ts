import { describe, expect, test } from "vitest";
import { CLIENT_ABILITIES } from "../../../../../src/protocol/client-abilities.ts";
import { isFrame, type LogEvent } from "../../../../../src/session/core/events/event.ts";
import { redacted } from "../../../../../src/session/core/read/redaction/redaction.ts";
import { type Json, openSession, type SessionScript } from "../session-script.ts";
import { seen, TERMINAL, TEXT, texts, updates } from "./client-view.ts";

describe("the output of a command that the agent runs itself", () => {
  const call = {
    sessionUpdate: "tool_call",
    toolCallId: "t",
    title: "ls",
    status: "in_progress",
    content: [TERMINAL("x")],
    _meta: { terminal_info: { terminal_id: "x", cwd: "/w" } },
  };
  const output = (data: string) => ({
    sessionUpdate: "tool_call_update",
    toolCallId: "t",
    _meta: { terminal_output: { terminal_id: "x", data } },
  });
  const ended = {
    sessionUpdate: "tool_call_update",
    toolCallId: "t",
    status: "completed",
    _meta: {
      terminal_output: { terminal_id: "x", data: "three\n" },
      terminal_exit: { terminal_id: "x", exit_code: 1, signal: null },
    },
  };

  test("reaches a client with the ability verbatim", () => {
    const session = openSession();
    const given = [call, output("one\n"), output("two\n"), ended];
    const events = given.flatMap((update) => session.update(update));
    expect(updates(session, events, ["terminal-output"])).toEqual(given);
  });

  test("reaches any other client as text, before the tool call ends", () => {
    const session = openSession();
    const events = [call, output("one\n"), output("two\n"), ended].flatMap((one) => session.update(one));
    const [first, text, last, ...more] = updates(session, events);
    expect(more).toEqual([]);
    expect(first).toEqual({ ...call, content: [] });
    expect(text).toEqual({
      sessionUpdate: "tool_call_update",
      toolCallId: "t",
      content: [TEXT("```\none\ntwo\nthree\n[exit code 1]\n```")],
    });
    expect(last).toEqual(ended);
    expect(session.state.terminals).toEqual([]);
  });

  test("keeps the other content of the tool call, and does not take the text away again", () => {
    const session = openSession();
    const events = [
      { ...call, content: [TEXT("before"), TERMINAL("x")] },
      output("one"),
      { ...ended, content: [TEXT("after"), TERMINAL("x")] },
    ].flatMap((one) => session.update(one));
    const [first, text, last] = updates(session, events);
    expect(first?.content).toEqual([TEXT("before")]);
    expect(texts(text?.content)).toEqual(["after", "```\nonethree\n[exit code 1]\n```"]);
    expect(last).toEqual({ ...ended, content: null });
  });

  test("is cut to its end", () => {
    const session = openSession();
    const events = [call, output(`${"a".repeat(60_000)}`), ended].flatMap((one) => session.update(one));
    const text = String(texts(updates(session, events)[1]?.content)[0]);
    expect(text).toMatch(/^```\n… 4\d{4} characters are left out …\na+three\n\[exit code 1\]\n```$/);
    expect(text.length).toBeLessThan(17_000);
  });

  test("is left out where the other content is too long to be logged twice", () => {
    const session = openSession();
    const long = TEXT("x".repeat(300_000));
    session.update(call);
    const events = session.update({ ...ended, content: [long, TERMINAL("x")] });
    expect(updates(session, events)).toEqual([{ ...ended, content: [long] }]);
  });

  test("is told when the process ends before the tool call does", () => {
    const session = openSession();
    session.prompt("go");
    for (const update of [call, output("one")]) session.update(update);
    const [text] = updates(session, session.exit());
    expect(texts(text?.content)).toEqual(["```\none\n```"]);
    expect(session.state.terminals).toBeUndefined();
  });

  test("is in a permission request for no client without the ability", () => {
    const session = openSession();
    for (const update of [call, output("one")]) session.update(update);
    const events = session.askPermission("p", { toolCall: { toolCallId: "t", content: [TERMINAL("x")] } });
    expect(JSON.stringify(seen(session, events))).not.toContain("terminalId");
    expect(seen(session, events, ["terminal-output"])).toMatchObject([
      { params: { toolCall: { content: [TERMINAL("x")] } } },
    ]);
  });

  test("of a log from before is shown without the terminal", () => {
    const session = openSession();
    const [event] = session.update({ ...call, content: [TEXT("t"), TERMINAL("x")] });
    const old = { ...event, route: {} } as LogEvent;
    for (const abilities of [[], CLIENT_ABILITIES])
      expect(updates(session, [old], abilities)).toMatchObject([{ content: [TEXT("t")] }]);
  });
});

describe("a terminal that the host serves", () => {
  const report = (session: SessionScript, event: unknown) => session.item(JSON.stringify(event));
  const output = (session: SessionScript, data: string) =>
    report(session, ["terminal_output", { terminalId: "x", data }]);
  const ended = (session: SessionScript, exitCode = 0) =>
    report(session, ["terminal_exit", { terminalId: "x", exitCode, signal: null }]);
  const naming = { sessionUpdate: "tool_call_update", toolCallId: "t", content: [TERMINAL("x")] };
  const completed = { sessionUpdate: "tool_call_update", toolCallId: "t", status: "completed" };
  const call = { sessionUpdate: "tool_call", toolCallId: "t", title: "Build", kind: "execute" };

  /** The agent creates the terminal, whose output begins at once, and shows it in a tool call. */
  function run(session: SessionScript): LogEvent[] {
    const from = session.log.length;
    const params = { sessionId: "agent-session", command: "make", args: ["all"], cwd: "/host/root/sub" };
    session.update(call);
    session.agent({ id: 7, method: "terminal/create", params });
    report(session, ["answer", JSON.stringify({ jsonrpc: "2.0", id: 7, result: { terminalId: "x" } })]);
    output(session, "early\n");
    session.update(naming);
    output(session, "late\n");
    ended(session, 2);
    session.update(completed);
    return session.log.slice(from);
  }

  test("is shown live by the convention to a client that knows it", () => {
    const session = openSession();
    const meta = (name: string, more: object) => ({
      sessionUpdate: "tool_call_update",
      toolCallId: "t",
      _meta: { [name]: { terminal_id: "x", ...more } },
    });
    expect(updates(session, run(session), ["terminal-output"])).toEqual([
      call,
      {
        ...call,
        status: "pending",
        _meta: { terminal_info: { terminal_id: "x", cwd: "/host/root/sub" } },
      },
      meta("terminal_output", { data: "early\n" }),
      naming,
      meta("terminal_output", { data: "late\n" }),
      meta("terminal_exit", { exit_code: 2, signal: null }),
      completed,
    ]);
  });

  test("is shown as text to a client that came after it was announced", () => {
    const session = openSession();
    const events = run(session);
    const from = events.find((event) => isFrame(event) && event.frame.raw.includes('"type":"terminal"'))?.seq;
    const later = events.filter(({ seq }) => seq > Number(from));
    const got = updates(session, later, ["terminal-output"], { from: Number(from) });
    expect(JSON.stringify(got)).not.toContain("terminal_");
    expect(JSON.stringify(got)).toContain("late");
  });

  test("is shown as text to any other client, with the command at once and the output when the command ends", () => {
    const session = openSession();
    const events = run(session);
    const text = (of: string) => ({ ...naming, content: [TEXT(`\`\`\`\n${of}\n\`\`\``)] });
    expect(updates(session, events)).toEqual([
      call,
      text("$ make all\nearly"),
      { ...naming, content: null },
      text("$ make all\nearly\nlate\n[exit code 2]"),
      completed,
    ]);
    expect(session.state.terminals).toEqual([]);
  });

  test("is shown as text when the tool call ends before the command, and again when the command ends", () => {
    const session = openSession();
    const params = { sessionId: "agent-session", command: "serve" };
    session.agent({ id: 7, method: "terminal/create", params });
    report(session, ["answer", JSON.stringify({ jsonrpc: "2.0", id: 7, result: { terminalId: "x" } })]);
    session.update({ ...call, content: [TERMINAL("x")] });
    output(session, "one\n");
    const [first] = updates(session, session.update(completed));
    expect(texts(first?.content)).toEqual(["```\n$ serve\none\n```"]);
    const later = output(session, "two\n");
    expect(updates(session, later)).toEqual([]);
    expect(updates(session, later, ["terminal-output"])).toHaveLength(1);
    const [last] = updates(session, ended(session));
    expect(texts(last?.content)).toEqual(["```\n$ serve\none\ntwo\n```"]);
  });

  test("is named in a permission request only to clients that know it by then", () => {
    const session = openSession();
    session.update(call);
    session.agent({
      id: 7,
      method: "terminal/create",
      params: { sessionId: "agent-session", command: "make" },
    });
    report(session, ["answer", JSON.stringify({ jsonrpc: "2.0", id: 7, result: { terminalId: "x" } })]);
    const toolCall = { toolCallId: "t", content: [TERMINAL("x")] };
    const events = session.askPermission("p", { toolCall });
    expect(seen(session, events)).toMatchObject([
      { params: { update: { toolCallId: "t", content: [TEXT("```\n$ make\n```")] } } },
      { method: "session/request_permission", params: { toolCall: { toolCallId: "t", content: null } } },
    ]);
    expect(seen(session, events, ["terminal-output"])).toMatchObject([
      { params: { update: { _meta: { terminal_info: { terminal_id: "x", cwd: "/host/root" } } } } },
      { method: "session/request_permission", params: { toolCall } },
    ]);
  });

  test("shows no output to a redacted reader, live or later", () => {
    const session = openSession();
    const events = run(session).map((event) => redacted(event));
    for (const abilities of [[], CLIENT_ABILITIES]) {
      const shown = JSON.stringify(updates(session, events, abilities));
      expect(shown).toContain("Build");
      expect(shown).not.toMatch(/early|late|make/);
    }
  });

  test("counts with its output as history", () => {
    const session = openSession();
    const before = session.state.historyChars;
    output(session, "x".repeat(1000));
    expect(session.state.historyChars - before).toBe(1000);
  });
});

describe("a terminal that a client serves", () => {
  test("is named to that client, and its output is text for all others, whatever they know", () => {
    const session = openSession({}, { io: "client" });
    session.serving = [{ connection: "c1", serves: ["terminal"], cwd: "/editor" }];
    session.update({ sessionUpdate: "tool_call", toolCallId: "t", title: "Build" });
    const ask = (id: number, method: string, more: Json, result: Json) => {
      const [event] = session.agent({ id, method, params: { sessionId: "agent-session", ...more } });
      session.client({ id: `${session.state.sessionId}:${event?.seq}`, result });
    };
    ask(7, "terminal/create", { command: "make" }, { terminalId: "x" });
    const content = [TERMINAL("x")];
    const named = session.update({ sessionUpdate: "tool_call_update", toolCallId: "t", content });
    const owner = { connection: "c1" };
    expect(updates(session, named, CLIENT_ABILITIES, owner)).toMatchObject([{ content }]);
    ask(8, "terminal/output", { terminalId: "x" }, { output: "done\n", truncated: false });
    const last = session.update({ sessionUpdate: "tool_call_update", toolCallId: "t", status: "completed" });
    expect(updates(session, last, [], owner)).toHaveLength(1);
    for (const abilities of [[], CLIENT_ABILITIES]) {
      expect(updates(session, named, abilities)).toMatchObject([
        { content: [TEXT("```\n$ make\n```")] },
        { content: null },
      ]);
      const [text] = updates(session, last, abilities);
      expect(texts(text?.content)).toEqual(["```\n$ make\ndone\n```"]);
    }
    const replayed = updates(session, named, [], { ...owner, replayUntil: session.state.lastSeq });
    expect(replayed).toEqual(updates(session, named));
  });
});
