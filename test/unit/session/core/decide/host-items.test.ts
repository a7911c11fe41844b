import { describe, expect, test } from "vitest";
import { unreadableAnswer } from "../../../../../src/protocol/message-head.ts";
import { isWelcome } from "../../../../../src/session/core/decide/host-greeting.ts";
import {
  brief,
  lastMessage,
  message,
  openSession,
  payloadOf,
  SessionScript,
  seqOf,
  startProcess,
} from "../session-script.ts";

describe("a host's hello", () => {
  test("connects the requested process", () => {
    const session = new SessionScript();
    session.open();
    expect(payloadOf(session.hello(), "runtime.connected")).toMatchObject({
      run: "run-1",
      host: "h1",
      processRequest: session.state.processRequest,
    });
    expect(session.state.run).toMatchObject({ id: "run-1", connected: true });
  });

  test("reconnects the known process", () => {
    const session = openSession();
    expect(brief(session.hello())).toEqual(["runtime.disconnected", "runtime.reconnected"]);
  });

  test("lets the turn end first if the host is draining", () => {
    const session = openSession();
    const [prompt] = session.prompt("go");
    expect(brief(session.hello("run-1", "h1", { draining: true }))).toContain("queue.owner.draining");
    expect(session.state.run?.stopping).toBe(false);
    const ended = session.answer(prompt?.seq as number, { stopReason: "end_turn" });
    expect(brief(ended)).toContain("queue.owner.drained");
    expect(session.state.run?.stopping).toBe(true);
  });

  test("[I13] is refused where the workspace has decided otherwise who serves the files, and nobody waits for it", () => {
    const session = new SessionScript();
    session.open();
    const events = session.hello("run-1", "h1", { io: "client" }, "host");
    expect(brief(events)).toEqual(["error", "gateway in response"]);
    expect(payloadOf(events, "error")).toMatchObject({
      message: expect.stringContaining("the workspace by the host"),
    });
    expect(session.state).toMatchObject({ run: null, agent: "failed" });
  });

  test("[I13] is refused for a known process that changes who serves the files, and the process stays", () => {
    const session = openSession();
    expect(session.hello("run-1", "h1", { io: "client" }, "host")).toEqual([]);
    expect(session.state.run).toMatchObject({ id: "run-1", io: "host", connected: true });
  });

  test("[I13] of an earlier build's log decides nothing about files", () => {
    const session = new SessionScript();
    session.open();
    const hello = { run: "run-1", agent: "codex", host: "h1", root: "/", processRequest: 1, delivered: 0 };
    session.step((batch) => batch.fact("gateway", "runtime.connected", { ...hello, io: "client" }));
    expect(session.state.run?.io).toBe("host");
  });

  test("is welcome only for the process that the session has or asked for", () => {
    const session = openSession();
    const hello = {
      t: "hello",
      agent: "codex",
      host: "h1",
      root: "/",
      delivered: 0,
      draining: false,
    } as const;
    const { processRequest } = session.state;
    expect(isWelcome(session.state, { ...hello, run: "run-1", processRequest })).toBe(true);
    expect(isWelcome(session.state, { ...hello, run: "run-2", processRequest })).toBe(false);
    session.exit(0);
    session.prompt("again");
    const next = session.state.processRequest;
    expect(isWelcome(session.state, { ...hello, run: "run-2", processRequest })).toBe(false);
    expect(isWelcome(session.state, { ...hello, run: "run-2", processRequest: next })).toBe(true);
  });
});

describe("a process that starts", () => {
  test("gets the client's session/new with the host's directory", () => {
    const session = new SessionScript();
    session.open("/editor");
    const events = startProcess(session);
    expect(lastMessage(events)).toMatchObject({ method: "session/new", params: { cwd: "/host/root" } });
  });

  test("answers the client that opened the session", () => {
    const session = openSession();
    expect(
      session.frame(({ direction, frame }) => direction === "in" && frame.kind === "response").route,
    ).toMatchObject({ to: "c1", id: "0" });
    expect(session.state.context.acpSessionId).toBe("agent-session");
  });

  test("fails the session when it refuses to open it", () => {
    const session = new SessionScript();
    session.open();
    startProcess(session);
    const events = session.agent({
      id: seqOf(session.log, "session/new", "gateway"),
      error: { code: 1, message: "no key" },
    });
    expect(payloadOf(events, "error")).toMatchObject({
      detailCode: "agent_unavailable",
      message: "The agent did not open a session: no key",
    });
    expect(session.state.agent).toBe("failed");
  });

  test("loads the agent session after a restart, and its replay is no news", () => {
    const session = openSession();
    session.update({ sessionUpdate: "agent_message_chunk", content: { type: "text", text: "hi" } });
    session.exit(0);
    session.prompt("again");
    expect(brief(startProcess(session, "run-2", { loadSession: true }))).toContain(
      "gateway out session/load",
    );
    const chunk = { sessionUpdate: "agent_message_chunk", content: { type: "text", text: "hi" } };
    expect(brief(session.update(chunk))).toEqual(["agent in session/update replay"]);
    expect(brief(session.update(chunk))).toEqual(["agent in session/update duplicate"]);
    const loaded = session.answer(seqOf(session.log, "session/load", "gateway"), {});
    expect(brief(loaded)).toEqual([
      "agent in response gateway",
      "session.loaded",
      "queue.dequeued",
      "turn.started",
    ]);
    expect(session.state.turns.recent.at(-1)).toMatchObject({ updates: 0 });
  });

  test("resumes the agent session after a restart: a conversation is no news, and settings are", () => {
    const session = openSession();
    session.exit(0);
    session.prompt("again");
    expect(brief(startProcess(session, "run-2", { sessionCapabilities: { resume: {} } }))).toContain(
      "gateway out session/resume",
    );
    const chunk = { sessionUpdate: "agent_message_chunk", content: { type: "text", text: "hi" } };
    const call = { sessionUpdate: "tool_call", toolCallId: "t1", title: "Read", status: "completed" };
    for (const update of [chunk, call, { sessionUpdate: "plan", entries: [] }])
      expect(brief(session.update(update))).toEqual(["agent in session/update replay"]);
    const commands = { sessionUpdate: "available_commands_update", availableCommands: [{ name: "test" }] };
    expect(brief(session.update(commands))).toEqual(["agent in session/update"]);
    expect(session.state.report.toolCalls.total).toBe(0);
    expect(session.state.report.commands).not.toBeNull();
    session.answer(seqOf(session.log, "session/resume", "gateway"), {});
    expect(brief(session.update(chunk))).toEqual(["agent in session/update"]);
  });

  test("is not checked for repetitions in its replay where the workspace wants none checked", () => {
    const session = openSession();
    session.exit(0);
    session.duplicateChunks = "off";
    session.prompt("again");
    startProcess(session, "run-2", { loadSession: true });
    const chunk = { sessionUpdate: "agent_message_chunk", content: { type: "text", text: "hi" } };
    for (let i = 0; i < 2; i += 1)
      expect(brief(session.update(chunk))).toEqual(["agent in session/update replay"]);
  });

  test("gets a new session when it cannot load the old one, and clients are told", () => {
    const session = openSession();
    session.exit(0);
    session.prompt("again");
    startProcess(session, "run-2", { loadSession: true });
    session.agent({ id: seqOf(session.log, "session/load", "gateway"), error: { code: 1, message: "no" } });
    const events = session.answer(seqOf(session.log, "session/new", "gateway"), { sessionId: "another" });
    expect(payloadOf(events, "session.rebound")).toEqual({
      acpSessionId: "another",
      previous: "agent-session",
    });
    expect(brief(events)).toContain("gateway in session/update");
  });
});

describe("an answer that breaks a rule", () => {
  test("with both a result and an error is an error, and the log has the agent's text", () => {
    const session = openSession();
    const [prompt] = session.prompt("go");
    const both = { result: { stopReason: "end_turn" }, error: { code: 7, message: "both" } };
    const events = session.agent({ id: prompt?.seq as number, ...both });
    expect(brief(events)).toEqual(["agent in response", "error", "turn.failed"]);
    expect(payloadOf(events, "error")).toMatchObject({
      violation: "resultAndError",
      frame: events[0]?.seq,
    });
    expect(payloadOf(events, "turn.failed")).toMatchObject({ error: both.error });
    expect(JSON.parse(session.frame(({ seq }) => seq === events[0]?.seq).frame.raw)).toMatchObject(both);
  });

  test("to session/new counts as an error with both as well", () => {
    const session = new SessionScript();
    session.open();
    startProcess(session);
    const events = session.agent({
      id: seqOf(session.log, "session/new", "gateway"),
      result: { sessionId: "agent-session" },
      error: { code: 1, message: "no key" },
    });
    expect(session.state).toMatchObject({ agent: "failed", context: { acpSessionId: null } });
    expect(payloadOf(events.slice(-1), "error")).toMatchObject({ violation: "resultAndError" });
  });

  test.each(["finished", undefined])("with the stop reason %s ends the turn", (stopReason) => {
    const session = openSession();
    const [prompt] = session.prompt("go");
    const events = session.answer(prompt?.seq as number, { stopReason });
    expect(brief(events)).toEqual(["agent in response", "error", "turn.completed"]);
    expect(payloadOf(events, "error")).toMatchObject({ violation: "unknownStopReason" });
  });
});

describe("an item that is no message", () => {
  test.each(['["unknown",1]', "not JSON", '["noise","Loading…"]'])("%s is noise and a violation", (line) => {
    const session = openSession();
    expect(brief(session.item(line))).toEqual(["runtime.noise", "error"]);
    expect(session.state.report.violations.noMessage).toBe(1);
  });

  test("stays in the log as a frame if it is a JSON object", () => {
    expect(brief(openSession().agent({ hello: 1 }))).toEqual(["agent in invalid stray", "error"]);
  });
});

describe("an answer of the agent that cannot be read", () => {
  const deep = `${'{"a":'.repeat(600)}1${"}".repeat(600)}`;
  const wide = `[${"1,".repeat(600_000)}1]`;
  const FORMS = [
    ["too deep", (id: number) => `{"jsonrpc":"2.0","id":${id},"result":${deep}}`],
    ["too deep, with its id last", (id: number) => `{"jsonrpc":"2.0","result":${deep},"id":${id}}`],
    ["too many values, with its id last", (id: number) => `{"result":{"x":${wide}},"id":${id}}`],
    ["not JSON", (id: number) => `{"jsonrpc":"2.0","id":${id},"result":{"x":NaN}}`],
    ["neither result nor error", (id: number) => `{"jsonrpc":"2.0","id":${id}}`],
    ["error of the host", (id: number) => unreadableAnswer(String(id), "the line is not UTF-8")],
  ] as const;

  test.each(FORMS)("ends the turn with an error that the state has (%s)", (_, text) => {
    const session = openSession();
    const [prompt] = session.prompt("go");
    const events = session.item(text(prompt?.seq as number));
    expect(brief(events)).toEqual(["agent in response", "error", "turn.failed"]);
    expect(payloadOf(events, "error")).toMatchObject({ origin: "agent", detailCode: "unreadable_answer" });
    expect(session.state.turn).toBeNull();
    expect(session.state.lastError).toContain("session/prompt: The agent's answer cannot be read");
  });

  test("ends no turn when its id is inside it", () => {
    const session = openSession();
    const [prompt] = session.prompt("go");
    session.item(`{"jsonrpc":"2.0","method":"session/update","params":{"x":${deep},"id":${prompt?.seq}}}`);
    expect(session.state.turn).not.toBeNull();
  });
});

describe("a request of the agent that cannot be read", () => {
  const deep = `${'{"a":'.repeat(600)}1${"}".repeat(600)}`;

  test.each([
    `{"jsonrpc":"2.0","method":"_ask","params":${deep},"id":"q"}`,
    `{"jsonrpc":"2.0","id":"q","method":"_ask","params":{"x":NaN}}`,
    '{"jsonrpc":"2.0","id":"q","method":5}',
  ])("gets an error (%#)", (line) => {
    const session = openSession();
    const events = session.item(line);
    expect(lastMessage(events)).toMatchObject({ id: "q", error: { message: expect.any(String) } });
    expect(session.state.lastError).toContain("A request of the agent cannot be read");
  });
});

test("a message that the host had to drop is an error with the true reason, and clients are told", () => {
  const session = openSession();
  const events = session.item('["dropped","(a line of 9 bytes was dropped: too long for a frame)"]');
  expect(brief(events)).toEqual(["error", "gateway in session/update"]);
  expect(payloadOf(events, "error")).toMatchObject({ origin: "host", detailCode: "message_dropped" });
  const reason = expect.stringContaining("a line of 9 bytes was dropped: too long");
  expect(lastMessage(events)).toMatchObject({
    params: { update: { _meta: { "acp-edge/event": "agent.violation", "acp-edge/message": reason } } },
  });
  expect(session.state).toMatchObject({ lastError: reason, report: { violations: { noMessage: 0 } } });
});

describe("a violation of the agent", () => {
  const call = { sessionUpdate: "tool_call", toolCallId: "t", title: "T", status: "completed" };

  test.each([
    ["duplicateToolCall", () => call],
    ["backwardStatus", () => ({ sessionUpdate: "tool_call_update", toolCallId: "t", status: "pending" })],
    ["changedContent", () => ({ sessionUpdate: "tool_call_update", toolCallId: "t", rawInput: "other" })],
  ])("%s is logged right after its frame", (violation, update) => {
    const session = openSession();
    session.prompt("go");
    session.update({ ...call, rawInput: "one" });
    const events = session.update(update());
    expect(brief(events)).toEqual(["agent in session/update", "error"]);
    expect(payloadOf(events, "error")).toMatchObject({ violation, frame: events[0]?.seq, origin: "agent" });
  });

  test("foreignSession is logged right after its frame", () => {
    const session = openSession();
    session.prompt("go");
    const events = session.update({ sessionUpdate: "plan", entries: [] }, "another");
    expect(payloadOf(events, "error")).toMatchObject({ violation: "foreignSession" });
  });

  test("is counted but no longer logged after the twentieth of a turn", () => {
    const session = openSession();
    session.prompt("go");
    const kinds = Array.from({ length: 25 }, () =>
      session.update({ sessionUpdate: "plan" }, "another"),
    ).flat();
    const errors = kinds.filter(({ kind }) => kind === "error");
    expect(errors).toHaveLength(20);
    expect(errors.at(-1)).toMatchObject({ payload: { last: true } });
    expect(session.state.report.violations.foreignSession).toBe(25);
  });
});

describe("a file request of the agent", () => {
  const read = {
    id: "f",
    method: "fs/read_text_file",
    params: { sessionId: "agent-session", path: "/host/root/a" },
  };

  test("is the host's to answer, and the answer is a fact", () => {
    const session = openSession();
    expect(brief(session.agent(read))).toEqual(["agent in fs/read_text_file host"]);
    const events = session.item(JSON.stringify(["answer", message({ id: "f", result: { content: "" } })]));
    expect(brief(events)).toEqual(["host out response", "client.fs.read"]);
    expect(payloadOf(events, "client.fs.read")).toMatchObject({ ok: true });
  });

  test("goes to one client with the client's own path where clients serve files", () => {
    const session = openSession({}, { io: "client" });
    session.serving = [
      { connection: "c1", serves: ["read"], cwd: "/editor" },
      { connection: "c2", serves: [], cwd: "/other" },
    ];
    const [event] = session.agent(read);
    expect(event).toMatchObject({ route: { to: "c1", path: '"/editor/a"' } });
  });

  test("is refused where no client serves files", () => {
    const events = openSession({}, { io: "client" }).agent(read);
    expect(brief(events)).toEqual(["agent in fs/read_text_file gateway", "gateway out response"]);
    expect(lastMessage(events)).toMatchObject({ id: "f", error: { code: -32601 } });
  });

  test("goes to the client that has the terminal, if it is for a terminal", () => {
    const session = openSession({}, { io: "client" });
    session.serving = [
      { connection: "c1", serves: ["terminal"], cwd: "/editor" },
      { connection: "c2", serves: ["terminal"], cwd: "/editor" },
    ];
    const [create] = session.agent({
      id: 1,
      method: "terminal/create",
      params: { sessionId: "a", command: "ls" },
    });
    expect(create).toMatchObject({ route: { to: "c2" } });
    session.client({ id: `${session.state.sessionId}:${create?.seq}`, result: { terminalId: "T" } }, "c2");
    const [output] = session.agent({ id: 2, method: "terminal/output", params: { terminalId: "T" } });
    expect(output).toMatchObject({ route: { to: "c2" } });
    const unknown = session.agent({ id: 3, method: "terminal/output", params: { terminalId: "U" } });
    expect(lastMessage(unknown)).toMatchObject({ error: { message: "Unknown terminal" } });
  });
});

test("a request of the agent is refused when clients have too many to answer", () => {
  const session = openSession({ openRequests: 1 });
  session.prompt("go");
  session.askPermission(1);
  expect(lastMessage(session.askPermission(2))).toMatchObject({
    id: 2,
    error: { message: "Clients have not answered 1 requests" },
  });
});

test("a request of the agent is refused when the requests that clients have to answer are too large together", () => {
  const session = openSession({ openRequestChars: 10_000, smallChars: 1_000 });
  const ask = (id: number, chars: number) =>
    session.agent({ id, method: "_vendor/ask", params: { text: "x".repeat(chars) } });
  const isOpen = (seq: number | undefined) => String(seq) in session.state.awaitingClient;
  session.prompt("go");
  const [first] = ask(1, 20_000);
  expect(isOpen(first?.seq)).toBe(true);
  const [second, refusal] = ask(2, 2_000);
  expect(isOpen(second?.seq)).toBe(false);
  expect(refusal).toMatchObject({
    frame: {
      value: {
        id: 2,
        error: { message: "The requests that clients have not answered exceed 10000 characters" },
      },
    },
  });
  const [small] = ask(3, 500);
  expect(isOpen(small?.seq)).toBe(true);
});

test("an answer that nobody waits for stays in the log", () => {
  expect(brief(openSession().answer(999, {}))).toEqual(["agent in response stray"]);
});
