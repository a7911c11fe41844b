import fc from "fast-check";
import { describe, expect, test } from "vitest";
import {
  allowsEverything,
  checkOpening,
  OPEN_RULES,
  type OpeningRules,
  openingRules,
} from "../../../src/protocol/opening-rules.ts";
import { propertyRuns } from "../../fixtures/property-runs.ts";

const UNSET = { mcpServers: null, additionalDirectories: null, openingMeta: null };
const STRICT = openingRules({ ...UNSET, container: {} });
const STDIO = { name: "sh", command: "/bin/sh", args: ["-c", "id"], env: [] };
const HTTP = { type: "http", name: "docs", url: "https://mcp.example", headers: [] };

function settingRefused(params: object, rules: Partial<OpeningRules> = {}): string | undefined {
  const checked = checkOpening({ cwd: "/editor", ...params }, { ...STRICT, ...rules }, "/workspace");
  return "refusal" in checked ? checked.refusal.setting : undefined;
}

function passed(params: object, rules: Partial<OpeningRules> = {}) {
  const checked = checkOpening({ cwd: "/editor", ...params }, { ...STRICT, ...rules }, "/workspace");
  if ("refusal" in checked) throw new Error(checked.refusal.message);
  return checked;
}

describe("the rules of a workspace", () => {
  test("are strict with a container, open without, and whatever the settings say", () => {
    expect(openingRules({ ...UNSET, container: null })).toEqual(OPEN_RULES);
    expect(allowsEverything(OPEN_RULES)).toBe(true);
    expect(STRICT).toEqual({
      mcpServers: "http",
      additionalDirectories: "root",
      openingMeta: ["traceparent", "tracestate", "baggage"],
    });
    const none: OpeningRules = { mcpServers: "none", additionalDirectories: "root", openingMeta: [] };
    expect(openingRules({ ...none, container: null })).toEqual(none);
    expect(openingRules({ ...OPEN_RULES, container: {} })).toEqual(OPEN_RULES);
  });
});

describe("MCP servers", () => {
  test.each([
    ["a command", [STDIO]],
    ["a command among others", [HTTP, STDIO]],
    ["a command that says it is http", [{ ...STDIO, type: "http", url: "https://x" }]],
    ["a command in other letters", [{ ...HTTP, Command: "/bin/sh" }]],
    ["a type nobody knows", [{ ...HTTP, type: "pipe" }]],
    ["no type", [{ name: "x", url: "https://x" }]],
    ["no address", [{ type: "http", name: "x" }]],
    ["an object in place of a list", { sh: STDIO }],
    ["a text", "/bin/sh"],
  ])("that are %s are refused under http and none", (_, mcpServers) => {
    expect(settingRefused({ mcpServers })).toBe("mcpServers");
    expect(settingRefused({ mcpServers }, { mcpServers: "none" })).toBe("mcpServers");
    expect(settingRefused({ mcpServers }, { mcpServers: "all" })).toBeUndefined();
  });

  test("that are remote pass under http, and none pass under none", () => {
    const sse = { ...HTTP, type: "sse" };
    expect(passed({ mcpServers: [HTTP, sse] }).params.mcpServers).toEqual([HTTP, sse]);
    expect(settingRefused({ mcpServers: [HTTP] }, { mcpServers: "none" })).toBe("mcpServers");
    for (const mcpServers of [undefined, null, []])
      expect(passed({ mcpServers }, { mcpServers: "none" }).params.mcpServers).toEqual([]);
  });
});

describe("additional directories", () => {
  test.each([
    ["/", "/root"],
    ["/root"],
    ["/workspace/../etc"],
    ["/editor/../../etc"],
    ["/workspaces"],
    ["/editor-2"],
    ["../other"],
    [7],
    ["/editor/a", "/etc"],
  ])("%j are refused under root", (...additionalDirectories) => {
    expect(settingRefused({ additionalDirectories })).toBe("additionalDirectories");
    expect(settingRefused({ additionalDirectories }, { additionalDirectories: "all" })).toBeUndefined();
  });

  test("within the root, or within the editor's directory, are those of the host", () => {
    const additionalDirectories = ["/editor/a/../b", "/workspace/c", "/editor"];
    const { params } = passed({ additionalDirectories });
    expect(params.additionalDirectories).toEqual(["/workspace/b", "/workspace/c", "/workspace"]);
    expect(settingRefused({ cwd: "/", additionalDirectories: ["/etc"] })).toBe("additionalDirectories");
  });

  test("never leave the root, whatever they are", () => {
    const segment = fc.constantFrom("..", ".", "", "a", "editor", "workspace", "etc", "..a");
    const path = fc.array(segment, { maxLength: 8 }).map((parts) => `/${parts.join("/")}`);
    fc.assert(
      fc.property(path, path, (directory, cwd) => {
        const checked = checkOpening({ cwd, additionalDirectories: [directory] }, STRICT, "/workspace");
        if ("refusal" in checked) return;
        expect(new URL(`file://${(checked.params.additionalDirectories as string[])[0]}`).pathname).toMatch(
          /^\/workspace(\/|$)/,
        );
      }),
      propertyRuns(2000),
    );
  });
});

describe("keys of _meta", () => {
  test("that are not on the list are dropped and named", () => {
    const _meta = { claudeCode: { options: { permissionMode: "bypassPermissions" } }, traceparent: "00" };
    const { params, dropped } = passed({ _meta: { ..._meta, "acp-edge/mode": "x" }, mode: "yolo" });
    expect(params._meta).toEqual({ traceparent: "00", "acp-edge/mode": "x" });
    expect(dropped).toEqual(["_meta.claudeCode", "mode"]);
    expect(passed({ _meta }, { openingMeta: ["claudeCode"] }).params._meta).toEqual({
      claudeCode: _meta.claudeCode,
    });
    expect(passed({ _meta, mode: "x" }, { openingMeta: "all" })).toMatchObject({
      params: { _meta, mode: "x" },
      dropped: [],
    });
    expect(passed({ _meta: "[secret:x]" }).params).not.toHaveProperty("_meta");
  });

  test("do not open a way around the other rules by another spelling", () => {
    const params = { mcpservers: [STDIO], mcp_servers: [STDIO], AdditionalDirectories: ["/"] };
    const { params: got, dropped } = passed(params, { openingMeta: "all" });
    expect(Object.keys(got).sort()).toEqual(["cwd", "mcpServers"]);
    expect(dropped).toEqual(Object.keys(params));
  });
});
