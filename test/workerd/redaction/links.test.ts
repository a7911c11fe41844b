import { evictDurableObject, runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { describe, expect, test } from "vitest";
import type { Caller } from "../../../src/protocol/caller.ts";
import type { Json } from "../../fixtures/json.ts";
import { get, openSession, send } from "../fixtures.ts";
import { ALL_OF_A_CLIENT, mint } from "../tokens.ts";
import { bytes, documents, ended, share, withoutConnections } from "./fixtures.ts";

describe("an unredacted link", () => {
  test("shows everything but the ids of connections", async () => {
    const told = await ended();
    const { workspace, sessionId, secrets } = told;
    const link = await share(told);
    const owner = await mint({ workspaces: [workspace] });
    const path = `/api/sessions/${sessionId}/events`;
    expect(withoutConnections(await bytes(path, link))).toBe(withoutConnections(await bytes(path, owner)));
    for (const [name, text] of Object.entries(await documents(link, sessionId)))
      if (!name.startsWith("/api")) expect([name, text.includes(secrets.mark)]).toEqual([name, true]);
  });
});

describe("share links", () => {
  test("are listed and audited with what they show", async () => {
    const opened = await openSession();
    await share(opened, true);
    await share(opened);
    const owner = await mint({ workspaces: [opened.workspace], scopes: ALL_OF_A_CLIENT });
    const { shares } = (await (await get("/api/shares", owner)).json()) as {
      shares: { id: string; redact: boolean }[];
    };
    expect(shares.map(({ redact }) => redact).sort()).toEqual([false, true]);
    const { entries } = (await (await get("/api/audit?limit=1000&kind=share.made", owner)).json()) as {
      entries: { detail: Json }[];
    };
    for (const { id, redact } of shares)
      expect(entries.map(({ detail }) => detail)).toContainEqual({ id, redact });
    const order = { session: opened.sessionId, redact: "yes" };
    expect((await send("POST", "/api/shares", owner, order)).status).toBe(400);
  });

  test("of an earlier build, which were not signed, are gone, and new ones can be made", async () => {
    const tenant = `t-${crypto.randomUUID()}`;
    const stub = env.TENANT_DO.getByName(tenant);
    const hash = crypto.randomUUID();
    await runInDurableObject(stub, (_, { storage }) => {
      storage.sql.exec(
        `CREATE TABLE share (
           id TEXT PRIMARY KEY, hash TEXT NOT NULL UNIQUE, session TEXT NOT NULL, workspace TEXT NOT NULL,
           by_subject TEXT NOT NULL, at INTEGER NOT NULL, expires INTEGER NOT NULL
         )`,
      );
      const row = ["old", hash, "s", "w", "me", Date.now(), Date.now() + 60_000];
      storage.sql.exec("INSERT INTO share VALUES (?, ?, ?, ?, ?, ?, ?)", ...row);
    });
    await evictDurableObject(stub);
    expect(await stub.shareBearer(hash)).toBeUndefined();
    const caller: Caller = { tenant, subject: "me", workspaces: ["*"], scopes: ["share"], expires: 0 };
    const order = { session: "s", workspace: "w", expires: Date.now() + 60_000, redact: true };
    await stub.createShare(caller, order, "other");
    await evictDurableObject(stub);
    expect(await stub.shareBearer("other")).toMatchObject({ session: "s", redacted: true });
    expect(await stub.listShares(caller)).toMatchObject([{ session: "s", redact: true, suspended: false }]);
  });
});
