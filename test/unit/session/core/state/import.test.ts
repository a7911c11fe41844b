import { expect, test } from "vitest";
import { session, sessionUpdate } from "./fixtures.ts";

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
