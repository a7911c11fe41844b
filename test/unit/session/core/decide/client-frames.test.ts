import { describe, expect, test } from "vitest";
import {
  brief,
  callerWith,
  lastMessage,
  message,
  openSession,
  payloadOf,
  SessionScript,
  seqOf,
} from "../session-script.ts";

describe("a prompt", () => {
  test("goes to a ready agent at once and begins a turn", () => {
    const session = openSession();
    const events = session.prompt("Do this");
    expect(brief(events)).toEqual(["client out session/prompt", "turn.started"]);
    expect(session.state.turn).toMatchObject({ turnId: "turn_1", prompt: events[0]?.seq });
    expect(events.map(({ requestId }) => requestId)).toEqual(Array(2).fill(`req_${events[0]?.seq}`));
  });

  test("waits in the queue while another turn is running, and follows it", () => {
    const session = openSession();
    const [first] = session.prompt("one");
    const events = session.prompt("two");
    expect(brief(events)).toEqual(["client out session/prompt held", "queue.enqueued"]);
    expect(payloadOf(events, "queue.enqueued")).toMatchObject({ turnId: "turn_2", position: 0 });
    const ended = session.answer(first?.seq as number, { stopReason: "end_turn" });
    expect(brief(ended)).toEqual(["agent in response", "turn.completed", "queue.dequeued", "turn.started"]);
    expect(session.state.turn?.turnId).toBe("turn_2");
  });

  test("asks for a process when there is none", () => {
    const session = openSession();
    session.exit(0);
    const events = session.prompt("again");
    expect(brief(events)).toEqual([
      "client out session/prompt held",
      "queue.enqueued",
      "runtime.reconnect_attempt",
    ]);
    expect(session.state).toMatchObject({ agent: "starting", processRequest: events[2]?.seq });
  });

  test("is refused when the queue is full", () => {
    const session = openSession({ queueLength: 1 });
    session.prompt("one");
    session.prompt("two");
    const events = session.prompt("three");
    expect(brief(events)).toEqual(["client out session/prompt gateway", "gateway in response"]);
    expect(lastMessage(events)).toMatchObject({
      error: { message: "The session's queue is full (1 prompts)" },
    });
  });

  test("is refused in a closed session, until a client resumes the session", () => {
    const session = openSession();
    session.request("session/close");
    expect(lastMessage(session.prompt("late"))).toMatchObject({
      error: { message: "The session is closed: load or resume it first" },
    });
    session.request("session/resume");
    expect(session.state.closed).toBe(false);
  });

  test("is refused when the history is full", () => {
    const session = openSession({ historyChars: 10 });
    expect(lastMessage(session.prompt("more"))).toMatchObject({ error: { code: -32600 } });
  });
});

describe("a prompt with an idempotency key", () => {
  const KEY = { "acp-edge/idempotencyKey": "k" };

  test("gets the first prompt's answer if it comes again while that prompt runs", () => {
    const session = openSession();
    const [first] = session.prompt("Do this", KEY);
    const again = session.prompt("Do this", KEY, "c2");
    expect(brief(again)).toEqual(["client out session/prompt gateway"]);
    const ended = session.answer(first?.seq as number, { stopReason: "end_turn" });
    const routes = ended.flatMap((event) => ("route" in event ? [event.route.to] : []));
    expect(routes).toEqual(["c1", "c2"]);
    expect(session.state.turns.total).toBe(1);
  });

  test("gets the logged answer if it comes again after the turn", () => {
    const session = openSession();
    const [first] = session.prompt("Do this", KEY);
    session.answer(first?.seq as number, { stopReason: "end_turn" });
    const events = session.prompt("Do this", KEY);
    expect(brief(events)).toEqual(["client out session/prompt gateway", "gateway in response"]);
    expect(lastMessage(events)).toMatchObject({ id: 2, result: { stopReason: "end_turn" } });
  });

  test("is refused if the key is no short string", () => {
    const events = openSession().prompt("x", { "acp-edge/idempotencyKey": "k".repeat(201) });
    expect(lastMessage(events)).toMatchObject({ error: { code: -32602 } });
  });
});

describe("session/cancel", () => {
  test("cancels the turn, its permission requests and the queue behind it", () => {
    const session = openSession();
    session.prompt("one");
    session.askPermission("p");
    session.prompt("two");
    const events = session.client({
      method: "session/cancel",
      params: { sessionId: session.state.sessionId },
    });
    expect(brief(events)).toEqual([
      "client out session/cancel",
      "queue.dequeued",
      "gateway in response",
      "turn.cancelled",
      "gateway out response",
      "permission.responded",
      "gateway in $/cancel_request",
    ]);
    expect(payloadOf(events, "permission.responded")).toMatchObject({ outcome: { outcome: "cancelled" } });
    expect(session.state.turn?.turnId).toBe("turn_1");
  });

  test("leaves the waiting prompts of other clients in the queue", () => {
    const session = openSession();
    session.prompt("one");
    session.prompt("mine", undefined, "c1");
    session.prompt("theirs", undefined, "c2");
    session.client({ method: "session/cancel", params: { sessionId: session.state.sessionId } });
    expect(session.state.queue).toEqual([{ seq: expect.any(Number), turnId: "turn_3" }]);
    session.client({ method: "session/cancel", params: { sessionId: session.state.sessionId } }, "c2");
    expect(session.state.queue).toEqual([]);
  });

  test("does not go to the agent when no turn is running", () => {
    const session = openSession();
    const events = session.client({ method: "session/cancel", params: {} });
    expect(brief(events)).toEqual(["client out session/cancel gateway"]);
  });
});

describe("$/cancel_request", () => {
  test("names a request by the id that the agent knows", () => {
    const session = openSession();
    const seq = session.request("_vendor/slow")[0]?.seq;
    const [event] = session.client({ method: "$/cancel_request", params: { requestId: 1 } });
    expect(event).toMatchObject({ route: { connection: "c1", requestId: String(seq) } });
  });

  test("takes a waiting prompt out of the queue", () => {
    const session = openSession();
    session.prompt("one");
    session.prompt("two");
    const events = session.client({ method: "$/cancel_request", params: { requestId: 2 } });
    expect(payloadOf(events, "queue.dequeued")).toMatchObject({ dropped: "Request cancelled" });
    expect(session.state.queue).toEqual([]);
  });

  test("goes no further if the request is unknown", () => {
    const [event] = openSession().client({ method: "$/cancel_request", params: { requestId: 9 } });
    expect(event).toMatchObject({ route: { stop: "stray" } });
  });
});

describe("a client that attaches", () => {
  test("gets the settings that session/new would have told", () => {
    const session = openSession();
    session.update({ sessionUpdate: "config_option_update", configOptions: [{ id: "o", name: "O" }] });
    const events = session.request("session/load", {}, "c2");
    expect(brief(events)).toEqual([
      "client out session/load gateway",
      "session.loaded",
      "gateway in response",
    ]);
    expect(payloadOf(events, "session.loaded")).toMatchObject({
      connection: "c2",
      replay: true,
      role: "controller",
    });
    expect(lastMessage(events)).toMatchObject({ result: { configOptions: [{ id: "o", name: "O" }] } });
  });

  test("is refused when its cursor is after the end of the log", () => {
    const events = openSession().request("session/load", { _meta: { "acp-edge/after": 1e6 } });
    expect(lastMessage(events)).toMatchObject({ error: { code: -32602 } });
  });
});

describe("an observer", () => {
  const observer = callerWith("session:read");

  test("may load a session, which stays closed", () => {
    const session = openSession();
    session.request("session/close");
    session.client({ id: 5, method: "session/load", params: {} }, "o", observer);
    expect(session.state.closed).toBe(true);
  });

  test("[I12] is neither history nor activity when it loads a session", () => {
    const session = openSession();
    const { historyChars, activeAt } = session.state;
    const events = session.client({ id: 5, method: "session/load", params: {} }, "o", observer);
    expect(brief(events)).toEqual([
      "client out session/load reader",
      "session.loaded",
      "gateway in response reader",
    ]);
    expect(session.state).toMatchObject({ historyChars, activeAt, awaitingAgent: {} });
  });

  test.each(["session/prompt", "session/cancel", "$/cancel_request", "_any"])(
    "[I12] leaves nothing behind with %s",
    (method) => {
      const session = openSession();
      const before = JSON.stringify(session.state);
      expect(session.client({ id: 5, method, params: {} }, "o", observer)).toEqual([]);
      expect(session.client({ method, params: {} }, "o", observer)).toEqual([]);
      expect(JSON.stringify(session.state)).toBe(before);
    },
  );

  test("may not answer the agent", () => {
    const session = openSession();
    session.prompt("go");
    const [asked] = session.askPermission();
    const answer = { id: `${session.state.sessionId}:${asked?.seq}`, result: {} };
    expect(session.client(answer, "o", observer)).toEqual([]);
    expect(session.state.awaitingClient[asked?.seq as number]).toBeDefined();
  });
});

describe("a frame that the session does not know", () => {
  test("goes to the agent if it is a request", () => {
    const session = openSession();
    expect(brief(session.request("_vendor/ask"))).toEqual(["client out _vendor/ask"]);
    expect(Object.values(session.state.awaitingAgent)).toMatchObject([
      { method: "_vendor/ask", connection: "c1" },
    ]);
  });

  test("stays in the log if it is no message", () => {
    expect(brief(openSession().client({ hello: 1 }))).toEqual(["client out invalid stray"]);
  });

  test("is refused when the agent has too many requests to answer", () => {
    const session = openSession({ openRequests: 1 });
    session.request("_vendor/ask");
    expect(lastMessage(session.request("_vendor/ask"))).toMatchObject({
      error: { message: "The agent has not answered 1 requests" },
    });
  });

  test("leaves only its id and its method when it is refused", () => {
    const session = openSession({ openRequests: 1 });
    session.request("_vendor/ask");
    const [refused] = session.request("_vendor/ask", { body: "x".repeat(1000) });
    expect(refused).toMatchObject({ kind: "acp.frame", route: { stop: "gateway" } });
    expect(lastMessage(refused ? [refused] : [])).toEqual({
      jsonrpc: "2.0",
      id: expect.anything(),
      method: "_vendor/ask",
    });
  });

  test("is refused when its method is too long", () => {
    const events = openSession({ idChars: 10 }).request("_vendor/long_method");
    expect(lastMessage(events)).toMatchObject({ error: { message: "The method exceeds 10 characters" } });
  });
});

test("a login goes to a process that has not opened the session yet", () => {
  const session = new SessionScript();
  session.open();
  const waiting = session.request("authenticate", { methodId: "m" });
  expect(brief(waiting)).toEqual(["client out authenticate held", "queue.enqueued"]);
  session.hello();
  session.item(JSON.stringify(["sent", message({ id: 0, method: "initialize" })]));
  const events = session.agent({ id: 0, result: {} });
  expect(brief(events)).toEqual(["agent in response host", "queue.dequeued", "gateway out session/new"]);
  const login = session.answer(waiting[0]?.seq as number, {});
  expect(payloadOf(login, "agent.login")).toMatchObject({ method: "authenticate", connection: "c1" });
  expect(seqOf(session.log, "session/new", "gateway")).toBe(events[2]?.seq);
});
