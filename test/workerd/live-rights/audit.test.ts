import { runInDurableObject } from "cloudflare:test";
import { env } from "cloudflare:workers";
import { afterEach, describe, expect, test, vi } from "vitest";
import { Tables } from "../../../src/durable/schema.ts";
import type { AuditKind } from "../../../src/tenant/client/audit.ts";
import { TENANT_SCHEMA } from "../../../src/tenant/schema.ts";
import { PAST_TABLES } from "../durable/past-schemas.ts";
import { openSession, workspaceName } from "../fixtures.ts";
import { setLimits } from "../limits.ts";
import { HELLO } from "../peers/host.ts";
import { Peer } from "../peers/peer.ts";
import { ALL_OF_A_CLIENT, type Claims, mint, WORKSPACE_ADMIN } from "../tokens.ts";
import { admin, ask } from "./fixtures.ts";

afterEach(() => {
  vi.useRealTimers();
});

describe("the audit", () => {
  type Entry = { seq: number; kind: string; subject: string; workspace: string | null; detail: object };
  async function audit(query: string, claims: Claims = { workspaces: ["*"] }): Promise<Entry[]> {
    const response = await ask("GET", `/api/audit?limit=1000${query}`, await admin(claims));
    expect(response.status).toBe(200);
    return ((await response.json()) as { entries: Entry[] }).entries;
  }

  test("names each action and who did it", async () => {
    const tenant = `t-${crypto.randomUUID()}`;
    const name = workspaceName();
    const as = (claims: Claims) => mint({ tenant, workspaces: [name], ...claims });
    const control = await Peer.connect("/host/control", await as({ scopes: ["host"], sub: "host:1" }));
    control.send(JSON.stringify({ ...HELLO, instance: "i" }));
    await control.takeJson();
    control.socket.close(1000, "bye");
    const boss = await as({ scopes: ALL_OF_A_CLIENT, sub: "boss" });
    await ask("PUT", `/api/workspaces/${name}`, boss, { policy: { default: "ask" } });
    const { id } = (await (await ask("POST", "/api/revocations", boss, { jti: "lost" })).json()) as {
      id: string;
    };
    await ask("DELETE", `/api/revocations/${id}`, boss);
    await ask("GET", "/api/sessions", await as({ exp: -60, sub: "late" }));
    await ask("GET", "/api/sessions", await as({ exp: -60, sub: "late" }));
    await vi.waitFor(async () => {
      const entries = await audit("", { tenant, workspaces: ["*"] });
      expect(entries.map(({ kind, subject }) => `${kind} ${subject}`).sort()).toEqual([
        "host.joined host:1",
        "host.left host:1",
        "revocation.lifted boss",
        "revocation.made boss",
        "token.refused late",
        "workspace.changed boss",
      ]);
    });
    const made = await audit("&kind=revocation.made", { tenant, workspaces: ["*"] });
    expect(made).toMatchObject([{ detail: { jti: "lost" } }]);
    const asAdminOf = (workspace: string) =>
      audit("", { tenant, workspaces: [workspace], scopes: WORKSPACE_ADMIN });
    expect(await asAdminOf("elsewhere")).toEqual([]);
    // Entries without a workspace concern the tenant, so also an administrator of every workspace does not see them.
    for (const workspaces of [name, "*"])
      expect((await asAdminOf(workspaces)).map(({ kind }) => kind).sort()).toEqual([
        "host.joined",
        "host.left",
        "workspace.changed",
      ]);
  });

  test("names answers to permissions and deleted sessions", async () => {
    const { client, agent, sessionId } = await openSession();
    client.call("session/prompt", { sessionId, prompt: [{ type: "text", text: "ask" }] });
    await agent.line();
    const options = [{ optionId: "yes", name: "Yes", kind: "allow_once" }];
    const params = { sessionId: "agent-session", toolCall: { toolCallId: "t" }, options };
    agent.items(JSON.stringify({ jsonrpc: "2.0", id: 5, method: "session/request_permission", params }));
    const request = await client.takeJson();
    const result = { outcome: { outcome: "selected", optionId: "yes" } };
    client.send(JSON.stringify({ jsonrpc: "2.0", id: request.id, result }));
    await agent.line();
    await client.request("session/delete", { sessionId });
    await vi.waitFor(async () => {
      const entries = (await audit("")).filter((entry) => "session" in entry && entry.session === sessionId);
      expect(entries).toMatchObject([
        {
          kind: "permission.answered",
          subject: "someone",
          detail: { outcome: JSON.stringify(result.outcome) },
        },
        { kind: "session.deleted", subject: "someone" },
      ]);
    });
  });

  test("is read page by page, and keeps the newest", async () => {
    setLimits({ auditEntries: 10 });
    const tenant = `t-${crypto.randomUUID()}`;
    const stub = env.TENANT_DO.getByName(tenant);
    for (let n = 1; n <= 25; n++) await stub.recordAct({ kind: "share.made", subject: `s${n}` });
    const bearer = await admin({ tenant });
    const seen: string[] = [];
    for (let after: number | null = 0; after !== null; ) {
      const page = (await (await ask("GET", `/api/audit?limit=4&after=${after}`, bearer)).json()) as {
        entries: Entry[];
        next: number | null;
      };
      expect(page.entries.length).toBeLessThanOrEqual(4);
      seen.push(...page.entries.map(({ subject }) => subject));
      after = page.next;
    }
    expect(seen).toEqual(Array.from({ length: 10 }, (_, n) => `s${n + 16}`));
  });

  test("keeps what others did, however many acts follow, in the order of time", async () => {
    setLimits({ auditEntries: 10, auditEntriesPerSubject: 4 });
    const tenant = `t-${crypto.randomUUID()}`;
    const stub = env.TENANT_DO.getByName(tenant);
    const act = (kind: AuditKind, subject: string, n = 0) => stub.recordAct({ kind, subject, detail: { n } });
    await act("revocation.made", "boss");
    await act("share.made", "alice");
    for (let n = 1; n <= 30; n++) await act("share.made", "mallory", n);
    await act("webhook.made", "boss");
    for (let n = 1; n <= 30; n++) await act("host.joined", `host:${n}`, n);
    const entries = await audit("", { tenant, workspaces: ["*"] });
    expect(entries.map(({ kind, subject, detail }) => [kind, subject, (detail as { n: number }).n])).toEqual([
      ["revocation.made", "boss", 0],
      ["share.made", "alice", 0],
      ...[27, 28, 29, 30].map((n) => ["share.made", "mallory", n]),
      ["webhook.made", "boss", 0],
      ...Array.from({ length: 10 }, (_, n) => ["host.joined", `host:${n + 21}`, n + 21]),
    ]);
    const counts = await runInDurableObject(stub, (_, { storage: { sql } }) =>
      sql
        .exec("SELECT kind, subject, entries FROM audit_count WHERE kind = 'share.made' ORDER BY 2")
        .toArray(),
    );
    expect(counts.map(({ subject, entries: n }) => [subject, n])).toEqual([
      ["", 5],
      ["alice", 1],
      ["mallory", 4],
    ]);
  });

  test("of an earlier build is counted when its object wakes", () =>
    runInDurableObject(env.TENANT_DO.getByName(crypto.randomUUID()), (_, { storage }) => {
      storage.sql.exec(PAST_TABLES.tenant?.[2] ?? "");
      storage.kv.put("schema:tenant", 3);
      for (const [kind, subject] of [
        ["share.made", "a"],
        ["share.made", "b"],
        ["share.made", "a"],
        ["host.left", "a"],
      ])
        storage.sql.exec(
          "INSERT INTO audit (at, kind, subject, detail) VALUES (1, ?, ?, '{}')",
          kind,
          subject,
        );
      new Tables(storage, TENANT_SCHEMA);
      expect(storage.sql.exec("SELECT * FROM audit_count ORDER BY kind, subject").toArray()).toEqual([
        { kind: "host.left", subject: "", entries: 1 },
        { kind: "host.left", subject: "a", entries: 1 },
        { kind: "share.made", subject: "", entries: 3 },
        { kind: "share.made", subject: "a", entries: 2 },
        { kind: "share.made", subject: "b", entries: 1 },
      ]);
    }));
});
