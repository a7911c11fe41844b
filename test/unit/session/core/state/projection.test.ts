import { describe, expect, test } from "vitest";
import { project, sessionStatus } from "../../../../../src/session/core/read/projection.ts";
import { prompt, request, session, sessionUpdate } from "./fixtures.ts";

describe("the projection of a session", () => {
  test("names the session as acpx does", () => {
    const { state } = session();
    expect(project(state)).toMatchObject({
      schema: "acpx.session.v1",
      acpxRecordId: "s",
      agent: { command: null, name: "codex" },
      workspace: { cwd: "/w", name: "w" },
      identity: { acpSessionId: "agent-session", agentSessionId: null },
      lifecycle: { createdAt: "1970-01-01T00:00:01.000Z", closed: false, closedAt: null },
      log: { firstSeq: 1, lastSeq: 4, nextSeq: 5, activeSegment: "events/000000000001.ndjson" },
      state: "active",
    });
  });

  test("shows the running turn, the queued turns and the ended turns", () => {
    const { state, batch } = session();
    const second = batch.frame("client", "out", prompt("Then that"), { connection: "c", stop: "held" });
    batch.fact("gateway", "queue.enqueued", { seq: second, turnId: "turn_2", position: 1 });
    batch.fact("gateway", "turn.completed", { turnId: "turn_1", prompt: 3, stopReason: "end_turn" });
    expect(project(state)).toMatchObject({
      turn: null,
      turns: {
        total: 2,
        recent: [
          { turnId: "turn_1", status: "completed", stopReason: "end_turn", promptPreview: "Do this" },
          { status: "queued", startedAt: null, promptPreview: "Then that" },
        ],
      },
      queue: [
        { seq: second, turnId: "turn_2", since: "1970-01-01T00:00:01.000Z", promptPreview: "Then that" },
      ],
    });
  });

  test("shows pending permission requests with their tool call", () => {
    const { state, batch, agent } = session();
    agent(sessionUpdate({ sessionUpdate: "tool_call", toolCallId: "t", title: "rm -r", kind: "delete" }));
    const options = [{ optionId: "y", name: "Yes", kind: "allow_once" }];
    const seq = agent(
      request("session/request_permission", {
        sessionId: "agent-session",
        toolCall: { toolCallId: "t" },
        options,
      }),
    );
    expect(project(state).pendingPermissions).toEqual([
      { seq, since: "1970-01-01T00:00:01.000Z", toolCallId: "t", title: "rm -r", kind: "delete", options },
    ]);
    batch.frame("client", "out", '{"id":1,"result":{}}', { connection: "c", re: seq, id: "1" });
    expect(project(state).pendingPermissions).toEqual([]);
  });

  test("names the event that has an over-long value", () => {
    const { state, agent } = session();
    const seq = agent(
      sessionUpdate({
        sessionUpdate: "tool_call",
        toolCallId: "t",
        title: "T",
        rawInput: { a: 1 },
        rawOutput: "x".repeat(9999),
      }),
    );
    const { toolCalls } = project(state) as { toolCalls: { items: unknown[] } };
    expect(toolCalls.items).toEqual([
      {
        toolCallId: "t",
        title: "T",
        name: null,
        kind: "other",
        status: "pending",
        seq,
        startedAt: "1970-01-01T00:00:01.000Z",
        endedAt: null,
        rawInput: { a: 1 },
        truncated: { rawOutput: seq },
      },
    ]);
  });

  test("says whether the session is active, paused, completed or in error", () => {
    const { state, batch } = session();
    expect(sessionStatus(state)).toBe("active");
    batch.fact("gateway", "queue.owner.idle_expired", { run: "r", idleMs: 1 });
    expect(sessionStatus(state)).toBe("paused");
    batch.fact("gateway", "runtime.reconnect_attempt", { attempt: 1, delayMs: 0 });
    expect(sessionStatus(state)).toBe("active");
    const error = { origin: "agent", code: null, detailCode: "agent_unavailable", message: "no" };
    batch.fact("gateway", "error", error);
    expect(sessionStatus(state)).toBe("error");
    batch.fact("gateway", "session.closed", { by: "c" });
    expect(sessionStatus(state)).toBe("completed");
    expect(project(state)).toMatchObject({
      lifecycle: { closed: true, closedAt: "1970-01-01T00:00:01.000Z" },
    });
    batch.fact("gateway", "session.loaded", { connection: "c" });
    expect(project(state)).toMatchObject({ lifecycle: { closed: false, closedAt: null } });
  });
});
