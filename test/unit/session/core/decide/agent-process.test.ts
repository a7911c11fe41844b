import { describe, expect, test } from "vitest";
import {
  drain,
  hostAbsent,
  hostGone,
  processLost,
  processRequestLost,
} from "../../../../../src/session/core/decide/host-departure.ts";
import { checkIdle, close } from "../../../../../src/session/core/decide/process-end.ts";
import {
  brief,
  lastMessage,
  openSession,
  payloadOf,
  SessionScript,
  startProcess,
} from "../session-script.ts";

describe("the end of a process", () => {
  test("fails its turn and answers the client", () => {
    const session = openSession();
    session.prompt("go");
    const events = session.exit(3, "out of memory");
    expect(brief(events)).toEqual(["queue.owner.stopped", "error", "gateway in response", "turn.failed"]);
    expect(payloadOf(events, "turn.failed")).toMatchObject({ turnId: "turn_1", reason: "agent_exited" });
    expect(lastMessage(events)).toMatchObject({
      error: { message: "The agent process ended: exit code 3", data: { stderr: "out of memory" } },
    });
    expect(session.state).toMatchObject({ agent: "gone", run: null, turn: null, crashes: 1 });
  });

  test("withdraws its permission requests", () => {
    const session = openSession();
    session.prompt("go");
    const [asked] = session.askPermission();
    const events = session.exit();
    expect(payloadOf(events, "permission.withdrawn")).toMatchObject({ request: asked?.seq });
    expect(brief(events)).toContain("gateway in $/cancel_request");
    expect(session.state.awaitingClient).toEqual({});
  });

  test("asks for another process when prompts wait", () => {
    const session = openSession();
    session.prompt("one");
    session.prompt("two");
    const events = session.exit();
    expect(brief(events).at(-1)).toBe("runtime.reconnect_attempt");
    expect(session.state.queue).toHaveLength(1);
  });

  test("fails the client's request if the process had not opened the session", () => {
    const session = new SessionScript();
    session.open();
    startProcess(session);
    const events = session.exit(127, "not found");
    expect(payloadOf(events, "error")).toMatchObject({ detailCode: "agent_unavailable" });
    expect(session.state.agent).toBe("failed");
  });

  test("delays the next process when it keeps happening, and then stops the session from asking for one", () => {
    const session = openSession({ crashLimit: 3, crashBackoffMs: 100 });
    const attempts: unknown[] = [];
    for (const run of ["run-2", "run-3"]) {
      session.exit();
      attempts.push(payloadOf(session.prompt("again"), "runtime.reconnect_attempt"));
      startProcess(session, run);
      session.answer(session.state.lastSeq, { sessionId: run });
    }
    expect(attempts).toEqual([
      { attempt: 2, delayMs: 0 },
      { attempt: 3, delayMs: 100 },
    ]);
    session.exit();
    expect(payloadOf(session.prompt("again"), "error")).toMatchObject({ detailCode: "crash_loop" });
    session.now += session.limits.crashMemoryMs + 1;
    expect(brief(session.prompt("much later"))).toContain("runtime.reconnect_attempt");
  });
});

describe("a host that goes", () => {
  test("leaves the turn running: the process may be alive", () => {
    const session = openSession();
    session.prompt("go");
    const events = session.step((batch) => hostGone(batch, "socket closed"));
    expect(brief(events)).toEqual(["runtime.disconnected"]);
    expect(session.state.turn).not.toBeNull();
  });

  test("pauses the session after the grace period, until the host is back", () => {
    const session = openSession();
    const away = session.step((batch) => hostAbsent(batch, "h1", "host h1 is away"));
    expect(brief(away)).toEqual(["runtime.disconnected", "runtime.paused", "gateway in session/update"]);
    expect(brief(session.step((batch) => hostAbsent(batch, "h1", "still away")))).toEqual([]);
    expect(brief(session.hello())).toEqual(["runtime.reconnected", "gateway in session/update"]);
    expect(session.state.run?.absent).toBe(false);
  });

  test("takes the process with it for good, which is no crash of the agent", () => {
    const session = openSession();
    session.prompt("go");
    const events = session.step((batch) => processLost(batch, "host h1 was started anew"));
    expect(payloadOf(events, "queue.owner.stopped")).toMatchObject({ lost: true, expected: false });
    expect(payloadOf(events, "turn.failed")).toMatchObject({ reason: "agent_lost" });
    expect(session.state.crashes).toBe(0);
  });

  test("makes the session ask again if its process had not begun", () => {
    const session = new SessionScript();
    session.open();
    const before = session.state.processRequest;
    const events = session.step((batch) => processRequestLost(batch, "host h1 is gone"));
    expect(payloadOf(events, "runtime.reconnect_attempt")).toMatchObject({ delayMs: 0 });
    expect(session.state.processRequest).toBeGreaterThan(before);
  });

  test("ends an idle process at once if it drains", () => {
    const session = openSession();
    expect(brief(session.step((batch) => drain(batch, "h1")))).toEqual([
      "queue.owner.draining",
      "queue.owner.drained",
    ]);
    expect(brief(session.step((batch) => drain(batch, "h1")))).toEqual([]);
  });
});

describe("an idle process", () => {
  test("is told to end, and the next prompt starts another", () => {
    const session = openSession({ idleMs: 1000 });
    session.now += 1000;
    expect(brief(session.step((batch) => checkIdle(batch, true)))).toEqual(["queue.owner.idle_expired"]);
    expect(session.state).toMatchObject({ paused: true, agent: "gone" });
    expect(brief(session.prompt("more"))).toContain("runtime.reconnect_attempt");
    expect(session.state.paused).toBe(false);
  });

  test("stays while a turn is running", () => {
    const session = openSession({ idleMs: 1000 });
    session.prompt("long");
    session.now += 5000;
    const events = session.step((batch) => checkIdle(batch, true));
    expect(payloadOf(events, "queue.owner.lease_renewed")).toMatchObject({ until: session.now + 1000 });
  });

  test("stays for a shorter time without a client", () => {
    const session = openSession({ idleMs: 1000, unattendedIdleMs: 300 });
    session.now += 300;
    const events = session.step((batch) => checkIdle(batch, true));
    expect(payloadOf(events, "queue.owner.lease_renewed")).toMatchObject({ until: session.now + 700 });
    expect(brief(session.step((batch) => checkIdle(batch, false)))).toEqual(["queue.owner.idle_expired"]);
  });

  test("stays no longer without a client than with one", () => {
    const session = openSession({ idleMs: 100, unattendedIdleMs: 300 });
    session.now += 100;
    expect(brief(session.step((batch) => checkIdle(batch, false)))).toEqual(["queue.owner.idle_expired"]);
  });
});

test("closing a session cancels its turn and its queue and stops the process", () => {
  const session = openSession();
  session.prompt("one");
  session.prompt("two");
  const events = session.step((batch) => close(batch, "c1"));
  expect(brief(events).filter((kind) => !kind.startsWith("gateway"))).toEqual([
    "queue.dequeued",
    "turn.cancelled",
    "turn.cancelled",
    "session.closed",
  ]);
  expect(session.state).toMatchObject({ closed: true, turn: null, queue: [], run: { stopping: true } });
});
