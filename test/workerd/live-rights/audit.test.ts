import { env } from "cloudflare:workers";
import { afterEach, describe, expect, test, vi } from "vitest";
import { openSession, workspaceName } from "../fixtures.ts";
import { setLimits } from "../limits.ts";
import { HELLO } from "../peers/host.ts";
import { Peer } from "../peers/peer.ts";
import { ALL_OF_A_CLIENT, type Claims, mint } from "../tokens.ts";
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
    const elsewhere = await audit("", { tenant, workspaces: ["elsewhere"] });
    expect(elsewhere.map(({ workspace }) => workspace).every((one) => one === null)).toBe(true);
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
});
