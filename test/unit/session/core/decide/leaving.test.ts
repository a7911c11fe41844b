import { describe, expect, test } from "vitest";
import { abandonRequests, endsSession } from "../../../../../src/session/core/decide/leaving.ts";
import { forClient } from "../../../../../src/session/core/read/for-client.ts";
import { openSession, type SessionScript, seqOf } from "../session-script.ts";

const alone = { names: ["c1"], controllers: ["c1"] };

describe("session/close", () => {
  test("ends the session of a client that is alone, with its own turn and queue", () => {
    const session = openSession();
    session.prompt("one");
    session.prompt("two");
    expect(endsSession(session.state, alone, undefined)).toBe(true);
    expect(endsSession(session.state, { ...alone, controllers: [] }, undefined)).toBe(true);
  });

  test("detaches while another controller is attached", () => {
    const { state } = openSession();
    expect(endsSession(state, { ...alone, controllers: ["c1", "c2"] }, undefined)).toBe(false);
  });

  test("detaches while somebody else's turn runs, or somebody else's prompt waits", () => {
    const session = openSession();
    session.prompt("theirs", undefined, "c2");
    expect(endsSession(session.state, alone, undefined)).toBe(false);
    const waiting = openSession();
    waiting.prompt("mine");
    waiting.prompt("theirs", undefined, "c2");
    expect(endsSession(waiting.state, alone, undefined)).toBe(false);
  });

  test("counts the prompts of the lost connection that the client continues as its own", () => {
    const session = openSession();
    session.prompt("mine", undefined, "c0");
    expect(endsSession(session.state, { ...alone, names: ["c1", "c0"] }, undefined)).toBe(true);
  });

  test("means what the workspace says, and what the client itself says", () => {
    const session = openSession();
    session.closeMeans = "detach";
    session.exit();
    session.prompt("again");
    session.hello("run-2");
    expect(endsSession(session.state, alone, undefined)).toBe(false);
    expect(endsSession(session.state, alone, "end")).toBe(true);
    expect(endsSession(openSession().state, alone, "detach")).toBe(false);
    const crowd = { ...alone, controllers: ["c1", "c2"] };
    expect(endsSession({ ...session.state, closeMeans: "end" }, crowd, undefined)).toBe(true);
  });
});

describe("a client that leaves", () => {
  const viewer = {
    connection: "c1",
    replayUntil: 0,
    answers: true,
    subscriptions: { turnEnds: false, agent: false },
  };
  const shown = (session: SessionScript, connection: string) =>
    session.log.flatMap((event) => forClient(event, session.state.sessionId, { ...viewer, connection }));

  test("gets no answer to its running prompt, and its turn goes on", () => {
    const session = openSession();
    session.prompt("one");
    const prompt = seqOf(session.log, "session/prompt", "client");
    let open: unknown;
    session.step((batch) => {
      open = abandonRequests(batch, "c1");
    });
    expect(open).toEqual([{ id: "1", method: "session/prompt" }]);
    expect(session.state.turn?.prompt).toBe(prompt);
    session.answer(prompt, { stopReason: "end_turn" });
    expect(session.state.turn).toBeNull();
    expect(session.log.at(-1)?.kind).toBe("turn.completed");
    expect(shown(session, "c1").filter((text) => text.includes("end_turn"))).toEqual([]);
  });

  test("leaves no trace without open requests", () => {
    expect(openSession().step((batch) => void abandonRequests(batch, "c1"))).toEqual([]);
  });

  test("takes nothing from another client that repeated the prompt", () => {
    const session = openSession();
    session.prompt("one", { "acp-edge/idempotencyKey": "k" });
    const prompt = seqOf(session.log, "session/prompt", "client");
    session.prompt("one", { "acp-edge/idempotencyKey": "k" }, "c2");
    session.step((batch) => void abandonRequests(batch, "c1"));
    session.answer(prompt, { stopReason: "end_turn" });
    expect(shown(session, "c2").filter((text) => text.includes("end_turn"))).toHaveLength(1);
  });
});
