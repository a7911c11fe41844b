import { runInDurableObject } from "cloudflare:test";
import { vi } from "vitest";
import { events, get, type Opened, openSession, sessionStub } from "./fixtures.ts";
import { setLimits } from "./limits.ts";
import { updateText } from "./peers/agent.ts";
import { token } from "./tokens.ts";

/**
 * A session whose object ends whenever it cannot record an event with the word "poison": part of its log is in the
 * archive and no snapshot can be written, so that only a fresh start restores the state.
 */
export async function mortalSession(): Promise<Opened> {
  setLimits({ historyChars: 20_000, segmentChars: 5_000, eventsPerSnapshot: 1_000_000 });
  const opened = await openSession();
  const { agent, client, sessionId } = opened;
  for (let i = 0; i < 10; i += 1) {
    agent.items(...Array.from({ length: 10 }, () => updateText("x".repeat(200))));
    for (let k = 0; k < 10; k += 1) await client.takeJson();
  }
  await agent.durable();
  await runInDurableObject(sessionStub(sessionId), (object) => object.alarm());
  await vi.waitUntil(() =>
    runInDurableObject(
      sessionStub(sessionId),
      (_, { storage }) => storage.sql.exec("SELECT 1 FROM segment").toArray().length > 0,
    ),
  );
  await runInDurableObject(sessionStub(sessionId), (_, { storage }) => {
    storage.sql.exec(`
      DELETE FROM snapshot;
      CREATE TRIGGER unsaved BEFORE INSERT ON snapshot BEGIN SELECT RAISE(IGNORE); END;
      CREATE TRIGGER poison BEFORE INSERT ON log WHEN instr(NEW.heads || NEW.body, 'poison') > 0
      BEGIN SELECT RAISE(ABORT, 'refused'); END`);
  });
  return opened;
}

export async function viewOf({ workspace, sessionId }: Opened): Promise<unknown> {
  return (await get(`/api/sessions/${sessionId}`, await token({ workspace }))).json();
}

/** The facts of the log that say that something was skipped. */
export async function skipped({ workspace, sessionId }: Opened): Promise<{ detailCode?: string }[]> {
  return (await events(workspace, sessionId))
    .map(({ payload }) => payload as { detailCode?: string })
    .filter(({ detailCode }) => detailCode?.endsWith("_skipped"));
}
