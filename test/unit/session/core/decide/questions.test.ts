import { describe, expect, test } from "vitest";
import { ASK_ALWAYS } from "../../../../../src/protocol/permission-policy.ts";
import { expireRequests, nextTimeout, setPolicy } from "../../../../../src/session/core/decide/policy.ts";
import { forClient } from "../../../../../src/session/core/read/for-client.ts";
import { project } from "../../../../../src/session/core/read/projection.ts";
import {
  brief,
  type Json,
  lastMessage,
  openSession,
  payloadOf,
  type SessionScript,
} from "../session-script.ts";

const SCHEMA = { type: "object", properties: { name: { type: "string" } }, required: ["name"] };

function ask(session: SessionScript, more: Json = {}) {
  const params = {
    sessionId: "agent-session",
    mode: "form",
    message: "Who?",
    requestedSchema: SCHEMA,
    ...more,
  };
  return session.agent({ id: "q", method: "elicitation/create", params });
}

/** A session whose turn waits for a question. */
function asking(more: Json = {}): { session: SessionScript; seq: number; id: string } {
  const session = openSession();
  session.abilities = ["elicitation.form", "elicitation.url"];
  session.prompt("go");
  const seq = ask(session, more)[0]?.seq as number;
  return { session, seq, id: `${session.state.sessionId}:${seq}` };
}

const ACCEPTED = { action: "accept", content: { name: "Ada" } };

describe("a question", () => {
  test("waits in the state, and readers see what is asked", () => {
    const { session, seq } = asking();
    expect(brief(session.log.slice(-2))).toEqual(["agent in elicitation/create", "question.requested"]);
    expect(payloadOf(session.log.slice(-1), "question.requested")).toMatchObject({
      ...{ request: seq, mode: "form", message: "Who?", requestedSchema: SCHEMA, url: null },
    });
    expect(project(session.state)).toMatchObject({
      pendingQuestions: [{ seq, mode: "form", message: "Who?", requestedSchema: SCHEMA, toolCallId: null }],
      pendingPermissions: [],
    });
  });

  test("with a long form or address stays small in the state, which names the event that has it", () => {
    const { session, seq } = asking({ mode: "url", url: `https://x.test/${"a".repeat(5000)}` });
    expect(project(session.state)).toMatchObject({
      pendingQuestions: [{ mode: "url", truncated: { url: seq } }],
    });
    expect(JSON.stringify(session.state.awaitingClient).length).toBeLessThan(1000);
  });

  test("is shown only to clients that can put it to their user, and so is its end", () => {
    const { session, id } = asking();
    const events = [...session.log.slice(-2), ...session.client({ id, result: ACCEPTED }, "c2")];
    const seenWith = (...abilities: ("elicitation.form" | "elicitation.url")[]) =>
      events.flatMap((event) => {
        const viewer = { connection: "c1", replayUntil: 0, answers: true, subscriptions: { abilities } };
        return forClient(event, session.state.sessionId, viewer).map((text) => JSON.parse(text).method);
      });
    expect(seenWith("elicitation.form")).toEqual(["elicitation/create", "$/cancel_request"]);
    expect(seenWith("elicitation.url")).toEqual([]);
    expect(seenWith()).toEqual([]);
  });

  test("is answered by the first client that can, and the others are told", () => {
    const { session, seq, id } = asking();
    const events = session.client({ id, result: ACCEPTED }, "c2");
    expect(brief(events)).toEqual([
      "client out response",
      "question.responded",
      "gateway in $/cancel_request",
    ]);
    const responded = payloadOf(events, "question.responded");
    expect(responded).toEqual({
      ...{ request: seq, answer: events[0]?.seq, action: "accept", by: "c2", subject: "me", why: "answered" },
    });
    expect(events[2]).toMatchObject({ route: { re: seq, except: "c2", having: "elicitation.form" } });
    expect(brief(session.client({ id, result: ACCEPTED }))).toEqual(["client out response stray"]);
  });

  test("is decided neither by errors, nor by answers that say nothing, nor by clients that were not asked", () => {
    const { session, seq, id } = asking();
    for (const said of [
      { error: { code: -32601, message: "?" } },
      { error: { code: -32603, message: "?" } },
      { result: {} },
      { result: { action: "zzz" } },
      { result: { action: "accept", content: "text" } },
    ])
      expect(brief(session.client({ id, ...said }))).toEqual(["client out response declined"]);
    session.abilities = ["elicitation.url"];
    expect(brief(session.client({ id, result: ACCEPTED }))).toEqual(["client out response stray"]);
    expect(session.state.awaitingClient[seq]).toBeDefined();
  });

  test("keeps a bounded number of errors in the state", () => {
    const { session, seq, id } = asking();
    for (let i = 0; i < 60; i += 1) session.client({ id, error: { code: -1, message: "?" } }, `c${i}`);
    expect(session.state.awaitingClient[seq]?.declined).toHaveLength(50);
    expect(brief(session.client({ id, result: ACCEPTED }))[0]).toBe("client out response");
  });

  test("is declined when nobody answers in time", () => {
    const { session } = asking();
    session.step((batch) => setPolicy(batch, { ...ASK_ALWAYS, timeoutMs: 1000 }));
    expect(nextTimeout(session.state)).toBe(session.now + 1000);
    expect(session.step(expireRequests)).toEqual([]);
    session.now += 1000;
    const events = session.step(expireRequests);
    expect(brief(events)).toEqual([
      "gateway out response",
      "question.responded",
      "gateway in $/cancel_request",
    ]);
    expect(lastMessage(events.slice(0, 1))).toMatchObject({ id: "q", result: { action: "decline" } });
    expect(payloadOf(events, "question.responded")).toMatchObject({ action: "decline", by: "policy" });
    expect(nextTimeout(session.state)).toBeNull();
  });

  test("is cancelled with its turn", () => {
    const { session } = asking();
    const events = session.client({
      method: "session/cancel",
      params: { sessionId: session.state.sessionId },
    });
    expect(payloadOf(events, "question.responded")).toMatchObject({ action: "cancel", by: "session/cancel" });
    expect(project(session.state)).toMatchObject({ pendingQuestions: [] });
  });

  test("is withdrawn when the agent cancels it, or its process ends", () => {
    const first = asking().session;
    const cancelled = first.agent({ method: "$/cancel_request", params: { requestId: "q" } });
    expect(brief(cancelled)).toEqual([
      "agent in $/cancel_request",
      "gateway out response",
      "question.withdrawn",
    ]);
    expect(cancelled[0]).toMatchObject({ route: { having: "elicitation.form" } });
    const second = asking().session;
    expect(payloadOf(second.exit(), "question.withdrawn")).toMatchObject({
      why: "the agent process ended: exit code 1",
    });
  });

  test.each([
    ["a mode that nobody knows", { mode: "_other" }],
    ["no message", { message: 5 }],
    ["no form", { requestedSchema: "?" }],
    ["fields that are none", { requestedSchema: { properties: [] } }],
    ["no address", { mode: "url" }],
  ])("with %s is refused", (_, more) => {
    const session = openSession();
    const events = ask(session, more);
    expect(brief(events)).toEqual(["agent in elicitation/create gateway", "gateway out response", "error"]);
    expect(lastMessage(events)).toMatchObject({ id: "q", error: { code: -32602 } });
    expect(session.state.awaitingClient).toEqual({});
  });
});
