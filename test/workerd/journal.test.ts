import { runInDurableObject } from "cloudflare:test";
import { expect, test } from "vitest";
import { Tables } from "../../src/durable/schema.ts";
import { DEFAULT_LIMITS } from "../../src/protocol/limits.ts";
import { Journal } from "../../src/session/log/journal.ts";
import { SESSION_SCHEMA } from "../../src/session/schema.ts";
import { sessionStub } from "./fixtures.ts";

function append(journal: Journal, count: number): void {
  journal.record((batch) => {
    for (let i = 0; i < count; i += 1) batch.frame("agent", "in", '{"jsonrpc":"2.0","method":"_x"}');
  });
}

/** The platform may start an object anew while its predecessor is still in memory. */
test("[I3] a journal that finds its log written by another object reads on without a gap", async () => {
  const sessionId = crypto.randomUUID();
  await runInDurableObject(sessionStub(sessionId), (_, { storage }) => {
    const tables = new Tables(storage, SESSION_SCHEMA);
    tables.create();
    const journal = new Journal(storage, tables, DEFAULT_LIMITS);
    journal.create(sessionId);
    append(journal, 3);
    const other = new Journal(storage, tables, DEFAULT_LIMITS);
    other.catchUp();
    append(other, 5);

    expect(() => append(journal, 1)).toThrow();
    expect(journal.restore()).toBe(true);
    append(journal, 1);
    const seqs = journal.after(3, DEFAULT_LIMITS.deliverChars).map(({ seq }) => seq);
    expect(seqs).toEqual([4, 5, 6, 7, 8, 9]);
  });
});
