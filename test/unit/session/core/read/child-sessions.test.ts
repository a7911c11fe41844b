import { describe, expect, test } from "vitest";
import { isFrame } from "../../../../../src/session/core/events/event.ts";
import { forAgent } from "../../../../../src/session/core/read/for-agent.ts";
import { forClient } from "../../../../../src/session/core/read/for-client.ts";
import { mergeChunks } from "../../../../../src/session/core/read/replay.ts";
import { type Json, lastMessage, openSession, type SessionScript } from "../session-script.ts";

const viewer = {
  connection: "c2",
  replayUntil: 0,
  answers: true,
  subscriptions: { turnEnds: false, agent: false },
};
const announcement = { sessionUpdate: "subagent_update", sessionId: "child" };
const text = (said: string) => ({
  sessionUpdate: "agent_message_chunk",
  content: { type: "text", text: said },
});

function announced(): SessionScript {
  const session = openSession();
  session.prompt("go");
  session.update(announcement);
  return session;
}

const seen = (session: SessionScript) =>
  session.log
    .flatMap((event) => forClient(event, session.state.sessionId, viewer))
    .map((raw) => JSON.parse(raw) as { params: { sessionId: string; update: Json } });

const toAgent = (session: SessionScript) => {
  const event = session.log.at(-1);
  const line = event && forAgent(event, { frameAt: () => undefined, reveal: (raw) => raw });
  return line === undefined ? undefined : (JSON.parse(line) as Json);
};

describe("a sub-agent's session", () => {
  test("is no violation once it is announced, and clients see it under one id", () => {
    const session = announced();
    const id = `${session.state.sessionId}/child`;
    session.update(text("hi"), "child");
    session.update({ ...announcement, sessionId: "grandchild" }, "child");
    session.update(text("hello"), "grandchild");
    session.update({
      ...{ sessionUpdate: "session_message", messageId: "m" },
      ...{ senderSessionId: "agent-session", recipientSessionId: "child" },
    });
    expect(session.state.report.violations.foreignSession).toBe(0);
    expect(seen(session).slice(-5)).toMatchObject([
      { params: { sessionId: session.state.sessionId, update: { sessionId: id } } },
      { params: { sessionId: id, update: text("hi") } },
      { params: { sessionId: id, update: { sessionId: `${session.state.sessionId}/grandchild` } } },
      { params: { sessionId: `${session.state.sessionId}/grandchild` } },
      {
        params: {
          sessionId: session.state.sessionId,
          update: { senderSessionId: session.state.sessionId, recipientSessionId: id },
        },
      },
    ]);
  });

  test("is a violation if nobody has announced it, or a stranger has", () => {
    const session = openSession();
    session.prompt("go");
    session.update(announcement, "stranger");
    session.update(text("hi"), "child");
    expect(session.state.report.violations.foreignSession).toBe(2);
  });

  test("keeps its chunks apart from the session's in a replay", () => {
    const session = announced();
    session.update(text("mine "));
    session.update(text("theirs"), "child");
    session.update(text("mine too"));
    const { lastSeq, sessionId } = session.state;
    const { texts } = mergeChunks(session.log, sessionId, { ...viewer, replayUntil: lastSeq }, 1e6);
    expect(texts.filter((raw) => raw.includes("mine")).join()).not.toContain("theirs");
    expect(texts.find((raw) => raw.includes("theirs"))).toContain(`${sessionId}/child`);
  });

  test("is cancelled by itself: the agent gets its own id back, and the turn goes on", () => {
    const session = announced();
    const { sessionId } = session.state;
    session.prompt("waiting");
    session.client({ method: "session/cancel", params: { sessionId: `${sessionId}/child` } });
    expect(toAgent(session)).toMatchObject({ method: "session/cancel", params: { sessionId: "child" } });
    expect(session.state.queue).toHaveLength(1);
    expect(session.state.turn).not.toBeNull();
  });

  test("may be asked what the agent serves, and changes nothing of the session", () => {
    const session = announced();
    const { sessionId } = session.state;
    session.request("session/set_mode", { sessionId: `${sessionId}/child`, modeId: "plan" });
    const asked = session.log.findLast(
      (event) => isFrame(event) && event.frame.method === "session/set_mode",
    );
    expect(toAgent(session)).toMatchObject({ params: { sessionId: "child" } });
    session.answer(asked?.seq ?? 0, {});
    expect(session.state.report.modes).toBeNull();
  });

  test.each(["session/prompt", "session/load", "session/resume"])("has no %s", (method) => {
    const session = announced();
    const events = session.request(method, { sessionId: `${session.state.sessionId}/child`, prompt: [] });
    expect(lastMessage(events)).toMatchObject({ error: { code: -32602 } });
    expect(session.state.queue).toEqual([]);
  });

  test("of another session is unknown here", () => {
    const session = announced();
    const other = "0f8fad5b-d9cb-469f-a165-70867728950e";
    const events = session.request("_vendor/x", { sessionId: `${other}/child` });
    expect(lastMessage(events)).toMatchObject({ error: { code: -32602 } });
  });

  test("is remembered within bounds", () => {
    const session = openSession();
    for (let n = 0; n < 150; n += 1) session.update({ ...announcement, sessionId: `child-${n}` });
    session.update({ ...announcement, sessionId: "x".repeat(201) });
    expect(session.state.children).toHaveLength(100);
    expect(session.state.children?.at(-1)).toBe("child-149");
  });
});
