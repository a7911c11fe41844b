import { describe, expect, test } from "vitest";
import { SESSION_CHANGE, type SessionChange } from "../../../../../src/protocol/session-change.ts";
import { changeSession } from "../../../../../src/session/core/decide/session-change.ts";
import { indexEntry } from "../../../../../src/session/core/read/index-entry.ts";
import { project } from "../../../../../src/session/core/read/projection.ts";
import { brief, lastMessage, openSession, type SessionScript } from "../session-script.ts";

const change = (session: SessionScript, wanted: SessionChange) =>
  session.step((batch) => changeSession(batch, wanted, { by: "c1", subject: "me" }));

const agentTitle = (session: SessionScript, title: string) =>
  session.update({ sessionUpdate: "session_info_update", title });

describe("a title", () => {
  test("of a person holds over the agent's titles, before and after, and every client is told", () => {
    const session = openSession();
    agentTitle(session, "The agent's");
    expect(indexEntry(session.state)?.title).toBe("The agent's");
    const events = change(session, { title: "Mine" });
    expect(brief(events)).toEqual(["session.titled", "gateway in session/update"]);
    const told = { params: { update: { sessionUpdate: "session_info_update", title: "Mine" } } };
    expect(lastMessage(events)).toMatchObject(told);
    const later = agentTitle(session, "Another one");
    expect(brief(later)).toEqual(["agent in session/update", "gateway in session/update"]);
    expect(lastMessage(later)).toMatchObject(told);
    expect(indexEntry(session.state)).toMatchObject({ title: "Mine", archived: false });
    expect(project(session.state)).toMatchObject({ title: "Mine", archived: false });
  });

  test("that is there already leaves no trace", () => {
    const session = openSession();
    change(session, { title: "Mine" });
    expect(change(session, { title: "Mine" })).toEqual([]);
  });

  test("is kept as one short line", () => {
    expect(SESSION_CHANGE.parse({ title: `  a\n\u2028b\u0007\tc  ` })).toEqual({ title: "a b c" });
    expect(SESSION_CHANGE.parse({ title: "x".repeat(5000) }).title).toHaveLength(200);
    const pair = SESSION_CHANGE.parse({ title: `${"x".repeat(199)}😀` }).title;
    expect(pair).toBe("x".repeat(199));
  });

  test.each([{}, { title: "" }, { title: " \n" }, { title: null }, { archived: "yes" }, { state: "x" }])(
    "and nothing else: %j is refused",
    (wanted) => {
      expect(SESSION_CHANGE.safeParse(wanted).success).toBe(false);
    },
  );
});

describe("archiving", () => {
  test("ends the work as closing does, and is undone without starting anything", () => {
    const session = openSession();
    session.prompt("one");
    const events = brief(change(session, { archived: true }));
    expect(events).toContain("turn.cancelled");
    expect(events.slice(-2)).toEqual(["session.closed", "session.archived"]);
    expect(indexEntry(session.state)).toMatchObject({ archived: true, state: "completed" });
    expect(change(session, { archived: true })).toEqual([]);
    expect(brief(change(session, { archived: false }))).toEqual(["session.unarchived"]);
    expect(indexEntry(session.state)).toMatchObject({ archived: false, state: "completed" });
    expect(session.state.agent).toBe("gone");
  });
});
