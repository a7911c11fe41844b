/** The command by which an editor starts an agent. */
export type EditorLaunch = { command: string; args: string[]; env: Record<string, string> };

type Editor = { file: string; language: "json" | "lua"; snippet(name: string, launch: EditorLaunch): string };

/** The settings of each editor for an agent that is a command. */
export const EDITORS = {
  zed: {
    file: "Zed: settings.json (command palette: zed: open settings file)",
    language: "json",
    snippet: (name, launch) => json({ agent_servers: { [name]: { type: "custom", ...launch } } }),
  },
  jetbrains: {
    file: "JetBrains: ~/.jetbrains/acp.json (AI Chat: Add Custom Agent)",
    language: "json",
    snippet: (name, launch) => json({ agent_servers: { [name]: launch } }),
  },
  neovim: {
    file: "Neovim: init.lua, for CodeCompanion or avante.nvim",
    language: "lua",
    snippet: (name, launch) => `${codeCompanion(name, launch)}\n\n${avante(name, launch)}`,
  },
  vscode: {
    file: "VS Code: settings.json, for the extension formulahendry.acp-client",
    language: "json",
    snippet: (name, launch) => json({ "acp.agents": { [name]: launch } }),
  },
} as const satisfies Record<string, Editor>;

export type EditorName = keyof typeof EDITORS;

function json(value: unknown): string {
  return JSON.stringify(value, null, 2);
}

/** Extends an adapter of the plugin, because the form of an adapter's handlers changes between versions. */
function codeCompanion(name: string, { command, args, env }: EditorLaunch): string {
  return `-- CodeCompanion
require("codecompanion").setup({
  adapters = {
    acp = {
      [${lua(name)}] = function()
        return require("codecompanion.adapters").extend("opencode", {
          name = ${lua(name)},
          formatted_name = ${lua(name)},
          commands = { default = ${luaList([command, ...args])} },
          env = ${luaTable(env)},
        })
      end,
    },
  },
  interactions = { chat = { adapter = ${lua(name)} } },
})`;
}

function avante(name: string, { command, args, env }: EditorLaunch): string {
  return `-- avante.nvim
require("avante").setup({
  provider = ${lua(name)},
  acp_providers = {
    [${lua(name)}] = {
      command = ${lua(command)},
      args = ${luaList(args)},
      env = ${luaTable(env)},
    },
  },
})`;
}

function luaList(values: readonly string[]): string {
  return `{ ${values.map(lua).join(", ")} }`;
}

function luaTable(values: Record<string, string>): string {
  const entries = Object.entries(values).map(([key, value]) => `[${lua(key)}] = ${lua(value)}`);
  return entries.length === 0 ? "{}" : `{ ${entries.join(", ")} }`;
}

/** A Lua string. For the texts that occur here, JSON uses the same escapes: quotes, backslashes and line breaks. */
function lua(text: string): string {
  return JSON.stringify(text);
}
