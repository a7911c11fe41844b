import { expect, test } from "vitest";
import { readFact } from "../../../../../src/session/core/events/fact-reader.ts";
import { session, sessionUpdate } from "./fixtures.ts";

const NO_CONTEXT = { acpSessionId: null, agentSessionId: null, turnId: null };
const chunk = sessionUpdate({ sessionUpdate: "agent_message_chunk", content: { type: "text", text: "x" } });

test("an imported log counts as history of its own storage, also the part that the original had archived", () => {
  const { state, batch, agent } = session();
  agent(chunk);
  agent(chunk);
  const whole = state.historyChars;
  const archived = { first: 1, last: 3, key: "events/1.ndjson", chars: whole - chunk.length };
  batch.fact("gateway", "log.archived", archived);
  expect(state).toMatchObject({ historyChars: chunk.length, archivedUpTo: 3 });
  const identity = { tenant: "t", owner: "o", workspace: "w", agent: "codex", cwd: "/w", request: 1 };
  const elsewhere = { tenant: null, owner: null, workspace: null };
  const from = { format: "acpx", acpxRecordId: "r", lastSeq: state.lastSeq, ...elsewhere } as const;
  batch.fact("gateway", "session.imported", { ...identity, from });
  expect(state).toMatchObject({ historyChars: whole, archivedUpTo: 0, archivedChars: 0 });
  agent(chunk);
  expect(state.historyChars).toBe(whole + chunk.length);
});

test("a log.archived fact from elsewhere archives no more than there is, so that the limit of the history holds", () => {
  const { state, batch, agent } = session();
  agent(chunk);
  const whole = state.historyChars;
  for (let i = 0; i < 3; i += 1)
    batch.fact("gateway", "log.archived", { first: 1, last: 1e15, key: "k", chars: Number.MAX_SAFE_INTEGER });
  expect(state).toMatchObject({ historyChars: 0, archivedChars: whole });
  expect(state.archivedUpTo).toBeLessThanOrEqual(state.lastSeq);
  agent(chunk);
  expect(state.historyChars).toBe(chunk.length);
});

test.each([-1e300, 1.7e308, 0.5, "many"])(
  "a log.archived fact from elsewhere with %j characters stays foreign and changes no count",
  (chars) => {
    const base = { seq: 1, at: 0, source: "gateway", context: NO_CONTEXT };
    const payload = { first: 1, last: 3, key: "events/1.ndjson", chars };
    expect(readFact(base, "log.archived", payload)).toMatchObject({ foreign: true });
  },
);
