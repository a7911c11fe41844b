import { runInDurableObject } from "cloudflare:test";
import { describe, expect, test } from "vitest";
import { DEFAULT_LIMITS } from "../../src/protocol/limits.ts";
import { type Opened, openSession, prompt, sessionStub } from "./fixtures.ts";

const { eventsPerTurnSnapshot: ENOUGH } = DEFAULT_LIMITS;

/** How many events a session replays when it wakes; undefined if it has no snapshot. */
const replayed = (sessionId: string): Promise<number | undefined> =>
  runInDurableObject(sessionStub(sessionId), (_, { storage }) => {
    const [snapshot] = storage.sql.exec<{ seq: number }>("SELECT seq FROM snapshot").toArray();
    const events = storage.sql.exec<{ seq: number; heads: string }>("SELECT seq, heads FROM log").toArray();
    const last = events.at(-1) as { seq: number; heads: string };
    const lastSeq = last.seq + (JSON.parse(last.heads) as unknown[]).length - 1;
    return snapshot && lastSeq - snapshot.seq;
  });

async function turn({ client, agent, sessionId }: Opened, updates: number): Promise<void> {
  const id = client.call("session/prompt", prompt(sessionId));
  const request = await agent.line();
  for (let i = 0; i < updates; i += 1) agent.update(`${i} `);
  await agent.durable();
  expect(await replayed(sessionId)).not.toBe(0);
  agent.answer(request, { stopReason: "end_turn" });
  await client.until(id);
}

describe("a snapshot of a session", () => {
  test("is taken at the end of a turn, so that the next wake replays nothing", async () => {
    const opened = await openSession();
    await turn(opened, ENOUGH);
    expect(await replayed(opened.sessionId)).toBe(0);
    await turn(opened, ENOUGH);
    expect(await replayed(opened.sessionId)).toBe(0);
  });

  test("is not taken at the end of a turn that adds little", async () => {
    const opened = await openSession();
    await turn(opened, 1);
    expect(await replayed(opened.sessionId)).toBeUndefined();
  });
});
