import { describe, expect, test } from "vitest";
import { mustReadFrame } from "../../../../../src/protocol/frame.ts";
import type { LogEvent } from "../../../../../src/session/core/events/event.ts";
import { forAgent } from "../../../../../src/session/core/read/for-agent.ts";
import { forClient, type Viewer } from "../../../../../src/session/core/read/for-client.ts";
import {
  admits,
  attachmentFor,
  badCursor,
  mergeChunks,
} from "../../../../../src/session/core/read/replay.ts";
import { message, openSession, type SessionScript, seqOf } from "../session-script.ts";

const LIVE: Viewer = { connection: "c1", replayUntil: 0, answers: true, subscriptions: {} };

/** The messages that a client gets for these events. */
function seen(session: SessionScript, events: readonly LogEvent[], viewer: Partial<Viewer> = {}): unknown[] {
  return events
    .flatMap((event) => forClient(event, session.state.sessionId, { ...LIVE, ...viewer }))
    .map((text) => JSON.parse(text));
}

/** The lines that the agent gets for these events. */
function lines(session: SessionScript, events: readonly LogEvent[]): unknown[] {
  const frameAt = (seq: number) => session.frame((event) => event.seq === seq);
  return events.flatMap((event) => {
    const line = forAgent(event, { frameAt, reveal: (text) => text });
    return line === undefined ? [] : [JSON.parse(line)];
  });
}

const chunk = (text: string, more: object = {}) => ({
  sessionUpdate: "agent_message_chunk",
  content: { type: "text", text },
  ...more,
});

describe("a client", () => {
  test("gets the agent's updates under the session's own id", () => {
    const session = openSession();
    expect(seen(session, session.update(chunk("hi")))).toMatchObject([
      { method: "session/update", params: { sessionId: session.state.sessionId, update: chunk("hi") } },
    ]);
  });

  test("gets the answer to its own request, under its own id, and no other's", () => {
    const session = openSession();
    const [prompt] = session.prompt("go");
    const events = session.answer(prompt?.seq as number, { stopReason: "end_turn" });
    expect(seen(session, events)).toEqual([{ jsonrpc: "2.0", id: 1, result: { stopReason: "end_turn" } }]);
    expect(seen(session, events, { connection: "c2" })).toEqual([]);
    expect(seen(session, events, { connection: "c2", subscriptions: { turnEnds: true } })).toMatchObject([
      { method: "_acp-edge/turn_ended", params: { result: { stopReason: "end_turn" } } },
    ]);
  });

  test("sees the prompts of others as user messages, and not its own", () => {
    const session = openSession();
    const events = session.prompt("go");
    expect(seen(session, events)).toEqual([]);
    expect(seen(session, events, { connection: "c2" })).toMatchObject([
      { params: { update: { sessionUpdate: "user_message_chunk", content: { text: "go" } } } },
    ]);
  });

  test("is asked for permissions only if it may answer", () => {
    const session = openSession();
    session.prompt("go");
    const events = session.askPermission("p");
    const id = `${session.state.sessionId}:${events[0]?.seq}`;
    expect(seen(session, events)).toMatchObject([{ id, method: "session/request_permission" }]);
    expect(seen(session, events, { answers: false })).toEqual([]);
  });

  test("gets the conversation of the past, and neither requests nor answers nor its own agent's replay", () => {
    const session = openSession();
    const [prompt] = session.prompt("go");
    session.update(chunk("hi"));
    session.askPermission();
    session.answer(prompt?.seq as number, { stopReason: "end_turn" });
    const kinds = seen(session, session.log, { connection: "c2", replayUntil: session.state.lastSeq }).map(
      (frame) => (frame as { params: { update: { sessionUpdate: string } } }).params.update.sessionUpdate,
    );
    expect(kinds).toEqual(["user_message_chunk", "agent_message_chunk"]);
  });

  test("hears that the agent failed, restarts and is back if it subscribes to that", () => {
    const session = openSession();
    const subscriptions = { agent: true };
    expect(seen(session, session.exit(1), { subscriptions })).toMatchObject([
      { method: "_acp-edge/agent", params: { status: "error" } },
    ]);
    expect(seen(session, session.prompt("again"), { subscriptions })).toMatchObject([
      { method: "_acp-edge/agent", params: { status: "restarting" } },
    ]);
  });
});

describe("the agent", () => {
  test("gets a client's request under its place in the log and its own session id", () => {
    const session = openSession();
    const events = session.prompt("go");
    expect(lines(session, events)).toMatchObject([
      { id: events[0]?.seq, method: "session/prompt", params: { sessionId: "agent-session" } },
    ]);
  });

  test("gets a held prompt when it leaves the queue, and not before", () => {
    const session = openSession();
    const [first] = session.prompt("one");
    const held = session.prompt("two");
    expect(lines(session, held)).toEqual([]);
    const events = session.answer(first?.seq as number, { stopReason: "end_turn" });
    expect(lines(session, events)).toMatchObject([{ id: held[0]?.seq, method: "session/prompt" }]);
  });

  test("never gets a prompt that was dropped from the queue", () => {
    const session = openSession();
    session.prompt("one");
    session.prompt("two");
    const events = session.client({
      method: "session/cancel",
      params: { sessionId: session.state.sessionId },
    });
    expect(lines(session, events)).toMatchObject([{ method: "session/cancel" }]);
  });

  test("gets an answer under the id of its own request", () => {
    const session = openSession();
    session.prompt("go");
    const [asked] = session.askPermission("p");
    const result = { outcome: { outcome: "selected", optionId: "yes" } };
    const events = session.client({ id: `${session.state.sessionId}:${asked?.seq}`, result });
    expect(lines(session, events)).toEqual([{ jsonrpc: "2.0", id: "p", result }]);
  });
});

describe("a replay", () => {
  const replay = (session: SessionScript, maxChars = 1000) => {
    const viewer = { ...LIVE, connection: "c2", replayUntil: session.state.lastSeq };
    const { texts, seqs } = mergeChunks(session.log, session.state.sessionId, viewer, maxChars);
    const said = texts.map((text) => JSON.parse(text).params.update.content.text as string);
    return { said, seqs };
  };

  test("joins the chunks of a message, which then counts as its last event", () => {
    const session = openSession();
    session.prompt("go");
    session.update(chunk("Hel"));
    const last = session.update(chunk("lo"))[0]?.seq;
    expect(replay(session)).toMatchObject({ said: ["go", "Hello"] });
    expect(replay(session).seqs.at(-1)).toBe(last);
  });

  test("does not join chunks of different messages, nor chunks with more than their text", () => {
    const session = openSession();
    session.update(chunk("a", { messageId: "1" }));
    session.update(chunk("b", { messageId: "2" }));
    session.update(chunk("c", { _meta: {} }));
    session.update(chunk("d"));
    expect(replay(session).said).toEqual(["a", "b", "c", "d"]);
  });

  test("does not join messages of two turns", () => {
    const session = openSession();
    session.update(chunk("a"));
    session.client({ id: 9, method: "session/prompt", params: { prompt: [] } });
    session.update(chunk("b"));
    expect(replay(session).said).toEqual(["a", "b"]);
  });

  test("begins another frame when a message is too long for one", () => {
    const session = openSession();
    for (const text of ["aaa", "bbb", "ccc"]) session.update(chunk(text));
    expect(replay(session, 5).said).toEqual(["aaabbb", "ccc"]);
  });
});

describe("an attachment", () => {
  const frame = (method: string, meta?: object) =>
    mustReadFrame(message({ id: 1, method, params: { ...(meta && { _meta: meta }) } }));

  test("reads from the beginning with session/load, and from the end with session/resume", () => {
    expect(attachmentFor(frame("session/load"), 10, false, [4])).toEqual({
      ...{ seq: 10, start: 0, merge: true, offers: [4] },
    });
    expect(attachmentFor(frame("session/resume"), 10, false, [])).toMatchObject({ start: 10, merge: false });
  });

  test("reads from its cursor on, if it has one", () => {
    expect(attachmentFor(frame("session/load", { "acp-edge/after": 7 }), 10, true, [])).toMatchObject({
      start: 7,
      merge: false,
    });
    expect(badCursor(frame("session/load", { "acp-edge/after": 7 }), 10)).toBeUndefined();
    expect(badCursor(frame("session/load", { "acp-edge/after": 10 }), 10)).toContain("at most 9");
  });

  test("gets no offers twice when it continues a lost connection", () => {
    const meta = { "acp-edge/after": 7, "acp-edge/as": "lost" };
    expect(attachmentFor(frame("session/resume", meta), 10, false, [4])).toMatchObject({
      as: "lost",
      offers: [],
    });
  });

  test("is implied by any first frame, because the client wants its answer", () => {
    expect(attachmentFor(frame("session/prompt"), 10, false, [])).toMatchObject({ seq: 9, start: 9 });
    expect(attachmentFor(frame("session/prompt"), 10, true, [])).toBeUndefined();
  });

  test("is complete with the answer to its request", () => {
    const session = openSession();
    const events = session.request("session/load", {}, "c2");
    const seq = seqOf(session.log, "session/load", "client");
    expect(events.map((event) => admits(event, "c2", seq))).toEqual([false, false, true]);
  });
});
