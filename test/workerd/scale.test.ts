import { evictDurableObject, runInDurableObject } from "cloudflare:test";
import { beforeAll, describe, expect, test } from "vitest";
import { DEFAULT_LIMITS } from "../../src/protocol/limits.ts";
import { eventsText, get, type Opened, openSession, sessionStub } from "./fixtures.ts";
import { updateText } from "./peers/agent.ts";
import { token } from "./tokens.ts";

const EVENTS = 100_000;

/** Shows which rows a read touches by damaging all others: reading an unneeded row fails. */
describe("a session of 100,000 events", () => {
  let opened: Opened;
  let last: number;

  const inObject = <T>(look: (sql: SqlStorage) => T) =>
    runInDurableObject(sessionStub(opened.sessionId), (_, state) => look(state.storage.sql));

  beforeAll(async () => {
    opened = await openSession();
    for (let i = 0; i < EVENTS; i += 1000) {
      opened.agent.items(...Array.from({ length: 1000 }, (_, k) => updateText(`${i + k}`)));
      await opened.agent.durable();
    }
    last = await inObject((sql) => {
      const { seq, heads } = sql
        .exec<{ seq: number; heads: string }>("SELECT seq, heads FROM log ORDER BY seq DESC LIMIT 1")
        .one();
      return seq + (JSON.parse(heads) as unknown[]).length - 1;
    });
    expect(last).toBeGreaterThan(EVENTS);
  }, 120_000);

  test("gives a page from the middle without reading any event before or after it", async () => {
    const { workspace, sessionId } = opened;
    const middle = Math.floor(last / 2);
    const whole = await eventsText(workspace, sessionId, `?after=${middle}&limit=20`);
    const kept = await inObject((sql) => damageAllBut(sql, middle, middle + 20));
    expect(await eventsText(workspace, sessionId, `?after=${middle}&limit=20`)).toBe(whole);
    await expect(eventsText(workspace, sessionId, "?after=0&limit=20")).rejects.toThrow();
    await inObject((sql) => restore(sql));
    expect(kept).toBeLessThan(4);
  });

  test("opens after an eviction from the snapshot and the events after it alone", async () => {
    const { workspace, sessionId } = opened;
    const bearer = await token({ workspace });
    // The page of messages after the last event has none, so the view needs no event.
    const view = `/api/sessions/${sessionId}?history=${last}`;
    const before = await (await get(view, bearer)).text();
    const kept = await inObject((sql) => {
      const { seq } = sql.exec<{ seq: number }>("SELECT seq FROM snapshot").one();
      const rows = damageAllBut(sql, seq, last);
      // The view says how the session was opened.
      sql.exec("UPDATE log SET heads = substr(heads, 8) WHERE seq = 1 AND heads LIKE 'damaged%'");
      return rows;
    });
    expect(kept).toBeLessThan(DEFAULT_LIMITS.eventsPerSnapshot / 10);
    await evictDurableObject(sessionStub(sessionId));
    expect(await (await get(view, bearer)).text()).toBe(before);
    await inObject((sql) => restore(sql));
  });
});

/** Damages every row without an event after `after` and up to `upTo`; returns how many rows stay readable. */
function damageAllBut(sql: SqlStorage, after: number, upTo: number): number {
  const first = sql
    .exec<{ seq: number }>("SELECT max(seq) AS seq FROM log WHERE seq <= ?", after + 1)
    .one().seq;
  sql.exec("UPDATE log SET heads = 'damaged' || heads WHERE seq < ? OR seq > ?", first, upTo + 1000);
  return sql.exec<{ n: number }>("SELECT count(*) AS n FROM log WHERE heads NOT LIKE 'damaged%'").one().n;
}

function restore(sql: SqlStorage): void {
  sql.exec("UPDATE log SET heads = substr(heads, 8) WHERE heads LIKE 'damaged%'");
}
