import { describe, expect, test } from "vitest";
import type { DuplicateChunks } from "../../../../../src/protocol/workspace-settings.ts";
import { brief, SessionScript, seqOf, startProcess } from "../session-script.ts";

const chunk = (text: string, sessionUpdate = "agent_message_chunk") => ({
  sessionUpdate,
  content: { type: "text", text },
});
const plan = { sessionUpdate: "plan", entries: [] };

function sessionWith(duplicateChunks: DuplicateChunks): SessionScript {
  const session = new SessionScript();
  session.duplicateChunks = duplicateChunks;
  session.open();
  startProcess(session);
  session.answer(seqOf(session.log, "session/new", "gateway"), { sessionId: "agent-session" });
  session.prompt("go");
  return session;
}

/** Whether clients get each of the updates. */
function passes(session: SessionScript, ...updates: Record<string, unknown>[]): boolean[] {
  return updates.map((update) => brief(session.update(update))[0] === "agent in session/update");
}

describe("a text chunk that repeats the chunk right before it", () => {
  test.each(["replay", "off"] as const)("passes in a live stream under %s", (setting) => {
    expect(passes(sessionWith(setting), chunk("ha"), chunk("ha"))).toEqual([true, true]);
  });

  test("is kept from clients under stream, however often it comes", () => {
    const session = sessionWith("stream");
    expect(passes(session, chunk("ha"), chunk("ha"), chunk("ha"), chunk("ho"), chunk("ha"))).toEqual([
      ...[true, false, false, true, true],
    ]);
  });

  test("passes after another update, another kind of message, or a new turn", () => {
    const session = sessionWith("stream");
    expect(passes(session, chunk("ha"), plan, chunk("ha"))).toEqual([true, true, true]);
    expect(passes(session, chunk("ha", "agent_thought_chunk"), chunk("ha"))).toEqual([true, true]);
    session.answer(seqOf(session.log, "session/prompt", "client"), { stopReason: "end_turn" });
    session.prompt("again");
    expect(passes(session, chunk("ha"))).toEqual([true]);
  });
});
