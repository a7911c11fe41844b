import { describe, expect, test } from "vitest";
import { forClient } from "../../../../../src/session/core/read/for-client.ts";
import { brief, openSession, type SessionScript, seqOf } from "../session-script.ts";

const METHOD = "_session/steering";
const PROMPT = { prompt: [{ type: "text", text: "rather this" }] };

function shown(session: SessionScript, connection: string, replayUntil = 0): number {
  const subscriptions = { turnEnds: false, agent: false };
  const viewer = { connection, replayUntil, answers: true, subscriptions };
  return session.log
    .flatMap((event) => forClient(event, session.state.sessionId, viewer))
    .filter((text) => text.includes("user_message_chunk") && text.includes("rather this")).length;
}

function steered(result: unknown): SessionScript {
  const session = openSession();
  session.prompt("one");
  session.request(METHOD, PROMPT);
  session.agent({ id: seqOf(session.log, METHOD, "client"), ...(result as object) });
  return session;
}

describe("a steering message", () => {
  test("is shown to other clients when the agent has taken it, and to everybody in a replay", () => {
    const session = steered({ result: { outcome: "injected" } });
    expect(brief(session.log.slice(-2))).toEqual(["agent in response", "gateway in session/update"]);
    expect([shown(session, "c1"), shown(session, "c2")]).toEqual([0, 1]);
    expect(shown(session, "c1", session.state.lastSeq)).toBe(1);
  });

  test.each([{ result: { outcome: "promptRequired" } }, { error: { code: -32601, message: "no" } }])(
    "that the agent did not take is shown to nobody: %j",
    (answer) => {
      expect(shown(steered(answer), "c2")).toBe(0);
    },
  );

  test("that is a notification is shown at once", () => {
    const session = openSession();
    session.prompt("one");
    session.client({ method: METHOD, params: { sessionId: session.state.sessionId, ...PROMPT } });
    expect([shown(session, "c1"), shown(session, "c2")]).toEqual([0, 1]);
  });

  test("makes few events, whatever it consists of", () => {
    const session = openSession();
    session.prompt("one");
    const block = { type: "text", text: "x" };
    const params = { sessionId: session.state.sessionId, prompt: Array.from({ length: 5000 }, () => block) };
    expect(session.client({ method: METHOD, params }).length).toBeLessThan(60);
  });
});
