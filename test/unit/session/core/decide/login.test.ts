import { describe, expect, test } from "vitest";
import { mustReadFrame } from "../../../../../src/protocol/frame.ts";
import { keepLogin, relayLogin } from "../../../../../src/session/core/decide/client-frames.ts";
import { checkIdle } from "../../../../../src/session/core/decide/process-end.ts";
import {
  brief,
  lastMessage,
  message,
  openSession,
  SessionScript,
  seqOf,
  startProcess,
} from "../session-script.ts";

const LOGIN = mustReadFrame(message({ id: 5, method: "authenticate", params: { methodId: "key" } }));
const LOGOUT = mustReadFrame(message({ id: 6, method: "logout" }));
const REQUIRED = { code: -32000, message: "Authentication required" };

/** A session that its client opens, with the login of an earlier session, in an agent that wants one. */
function refusing(): SessionScript {
  const session = new SessionScript();
  session.open();
  session.step((batch) => keepLogin(batch, LOGIN));
  startProcess(session);
  return session;
}

describe("a process that does not open the session without a login", () => {
  test("gets the login of the connection, and opens the session for the client that waits", () => {
    const session = refusing();
    const opening = seqOf(session.log, "session/new", "gateway");
    const asked = session.agent({ id: opening, error: REQUIRED });
    expect(brief(asked)).toEqual(["agent in response gateway", "gateway out authenticate"]);
    expect(lastMessage(asked)).toMatchObject({ params: { methodId: "key" } });
    const again = session.answer(Number(lastMessage(asked).id), {});
    expect(brief(again)).toEqual(["agent in response gateway", "gateway out session/new"]);
    const opened = session.answer(Number(lastMessage(again).id), { sessionId: "agent-session" });
    expect(session.frame(({ route }) => route.to === "c1").route).toMatchObject({ id: "0" });
    expect(brief(opened)).toContain("session.created");
  });

  test("is tried once: the client gets the agent's own refusal", () => {
    const session = refusing();
    const asked = session.agent({ id: seqOf(session.log, "session/new", "gateway"), error: REQUIRED });
    const refusal = { id: lastMessage(asked).id, error: { code: -32602, message: "unknown method" } };
    const again = session.agent(refusal);
    const refused = session.agent({ id: lastMessage(again).id, error: REQUIRED });
    expect(brief(refused)).toEqual(["agent in response", "error"]);
    expect(refused[0]).toMatchObject({ route: { to: "c1", id: "0" } });
    expect(session.state.agent).toBe("failed");
  });

  test("gets no login after a logout", () => {
    const session = refusing();
    session.step((batch) => relayLogin(batch, LOGOUT));
    const refused = session.agent({ id: seqOf(session.log, "session/new", "gateway"), error: REQUIRED });
    expect(brief(refused)).toEqual(["agent in response", "error"]);
  });

  test("gets the login that the process before it accepted", () => {
    const session = openSession({ idleMs: 1 }, { capabilities: { sessionCapabilities: { resume: {} } } });
    const [login] = session.request("authenticate", { methodId: "key" });
    session.answer(login?.seq ?? 0, {});
    session.now += 1000;
    session.step((batch) => checkIdle(batch, true));
    session.exit(0);
    session.prompt("go");
    startProcess(session, "run-2", { sessionCapabilities: { resume: {} } });
    const asked = session.agent({ id: seqOf(session.log, "session/resume", "gateway"), error: REQUIRED });
    expect(lastMessage(asked)).toMatchObject({ method: "authenticate", params: { methodId: "key" } });
    const again = session.answer(Number(lastMessage(asked).id), {});
    expect(lastMessage(again).method).toBe("session/resume");
    expect(brief(session.answer(Number(lastMessage(again).id), {})).at(-1)).toBe("turn.started");
  });
});
