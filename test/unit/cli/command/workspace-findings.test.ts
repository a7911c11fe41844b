import { describe, expect, test } from "vitest";
import {
  linkFindings,
  tokenFindings,
  workspaceFindings,
} from "../../../../src/cli/command/workspace-findings.ts";
import { ASK_ALWAYS, type PermissionPolicy } from "../../../../src/protocol/permission-policy.ts";

const NOW = Date.parse("2026-01-01T00:00:00Z");
const DAY_S = 24 * 3600;

/** A workspace with a container has the strict defaults for openings. */
const STRICT = {
  ...{ container: {}, mcpServers: null, additionalDirectories: null, openingMeta: null, hosts: [] },
  policy: ASK_ALWAYS,
  clientIo: "host" as const,
};
const judged = (change: Partial<Parameters<typeof workspaceFindings>[0]>) =>
  workspaceFindings({ ...STRICT, ...change }).map(({ id, level }) => `${id} ${level}`);
const levels = (policy: PermissionPolicy, clientIo: "host" | "client" = "host") =>
  judged({ policy, clientIo });

describe("the findings about a workspace", () => {
  test("are good while people are asked and hosts serve the files", () => {
    expect(levels(ASK_ALWAYS)).toEqual(["policy ok", "client-io ok", "openings ok"]);
  });

  test("name a policy that allows risky tools, or anything", () => {
    expect(levels({ ...ASK_ALWAYS, byKind: { read: "allow" } })[0]).toBe("policy ok");
    expect(levels({ ...ASK_ALWAYS, byKind: { execute: "allow" } })[0]).toBe("policy warning");
    expect(levels({ ...ASK_ALWAYS, default: "allow" })[0]).toBe("policy warning");
  });

  test("fail a policy by which silence allows", () => {
    expect(levels({ ...ASK_ALWAYS, timeoutMs: 1000, onTimeout: "allow" })[0]).toBe("policy failed");
    expect(levels({ ...ASK_ALWAYS, timeoutMs: null, onTimeout: "allow" })[0]).toBe("policy ok");
  });

  test("warn when clients may bring commands along", () => {
    expect(judged({ container: null })[2]).toBe("openings warning");
    expect(judged({ container: null, mcpServers: "none", openingMeta: [] })[2]).toBe("openings ok");
  });

  test("warn of hosts that do not isolate agents, and of tokens that cannot be revoked alone", () => {
    const token = { subject: "host:h", jti: "j" };
    const host = { name: "h", state: "connected" as const, isolation: "bwrap", token };
    expect(judged({ hosts: [host] }).slice(3)).toEqual(["isolation ok"]);
    const open = { ...host, isolation: "none", token: { ...token, jti: null } };
    expect(judged({ hosts: [open] }).slice(3)).toEqual(["isolation warning", "host-token warning"]);
    expect(judged({ hosts: [{ ...open, state: "gone" }] }).slice(3)).toEqual([]);
  });

  test("warn when agents reach the editors' machines", () => {
    expect(levels(ASK_ALWAYS, "client")[1]).toBe("client-io warning");
  });
});

describe("the findings about a token", () => {
  const at = (days: number) => ({ iat: NOW / 1000, exp: NOW / 1000 + days * DAY_S });

  test("warn of a long life, counted from the token's beginning", () => {
    expect(tokenFindings(at(1), NOW)).toEqual([
      { id: "token-age", level: "ok", message: "your token is good for 24 hours" },
    ]);
    expect(tokenFindings(at(31), NOW + 30 * DAY_S * 1000)[0]?.level).toBe("warning");
    expect(tokenFindings({}, NOW)[0]?.level).toBe("warning");
  });

  test("warn of rights that daily work does not need, in either form of the claim", () => {
    const daily = { ...at(1), scopes: ["session:read", "session:prompt"] };
    expect(tokenFindings(daily, NOW)).toHaveLength(1);
    expect(tokenFindings({ ...at(1), scope: "session:read tenant:admin" }, NOW)[1]?.message).toContain(
      "tenant:admin",
    );
  });
});

describe("the findings about links", () => {
  const link = (days: number, redact: boolean) => ({
    ...{ id: "s", session: "x", workspace: "w", by: "ada", at: "", redact, suspended: false },
    expiresAt: new Date(NOW + days * DAY_S * 1000).toISOString(),
  });

  test("count them, and warn of those that last", () => {
    expect(linkFindings([link(1, true), link(2, false)], NOW)).toEqual([
      { id: "links", level: "ok", message: "2 links, 1 of them not redacted" },
    ]);
    expect(linkFindings([link(1, true), link(90, false)], NOW)[0]?.level).toBe("warning");
  });
});
