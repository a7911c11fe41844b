import { describe, expect, test } from "vitest";
import { EDITORS } from "../../../../src/cli/command/editor-settings.ts";

const LAUNCH = { command: "/usr/bin/node", args: ["main.ts", "connect"], env: { ACP_EDGE_TOKEN: "t" } };

describe("the settings for an editor", () => {
  test.each([
    ["zed", { agent_servers: { "my agent": { type: "custom", ...LAUNCH } } }],
    ["jetbrains", { agent_servers: { "my agent": LAUNCH } }],
    ["vscode", { "acp.agents": { "my agent": LAUNCH } }],
  ] as const)("%s are JSON that starts the command", (editor, settings) => {
    expect(JSON.parse(EDITORS[editor].snippet("my agent", LAUNCH))).toEqual(settings);
  });

  test("neovim are Lua for both plugins, with quoted strings", () => {
    const lua = EDITORS.neovim.snippet('an "agent"', { ...LAUNCH, env: {} });
    expect(lua).toContain('default = { "/usr/bin/node", "main.ts", "connect" }');
    expect(lua).toContain('provider = "an \\"agent\\""');
    expect(lua.match(/env = \{\}/g)).toHaveLength(2);
    expect(EDITORS.neovim.snippet("a", LAUNCH)).toContain('env = { ["ACP_EDGE_TOKEN"] = "t" }');
  });
});
