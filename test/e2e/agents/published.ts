/** How the published agents are started, with a model that is a stand-in. */
import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import type { SessionUpdate } from "@agentclientprotocol/sdk";
import { textOf } from "../updates.ts";
import type { AgentName } from "./installed.ts";

export type PublishedAgent = {
  name: AgentName;
  /** The agent's id in the catalogue. */
  id: string;
  command: (modules: string) => string[];
  /** The variables of the agent. */
  env: (modelUrl: string) => Record<string, string>;
  /** Files of the user that the agent expects. */
  prepareHome?: (home: string) => void;
  /** Whether the agent can ask the user a question. */
  asks: boolean;
  /** The output of a command, as its updates show it to a client. */
  outputOf: (updates: SessionUpdate[]) => string;
};

export const CLAUDE: PublishedAgent = {
  name: "claude",
  id: "claude-acp",
  command: (modules) => ["node", join(modules, "@agentclientprotocol/claude-agent-acp/dist/index.js")],
  env: (modelUrl) => ({
    ANTHROPIC_BASE_URL: modelUrl,
    ANTHROPIC_API_KEY: "sk-ant-stand-in-0123456789",
    CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: "1",
    DISABLE_AUTOUPDATER: "1",
    DISABLE_TELEMETRY: "1",
    // Claude Code wants to be told that root is meant.
    IS_SANDBOX: "1",
  }),
  asks: true,
  // The adapter has the output from the result of the tool, so one update brings all of it after the command has ended.
  outputOf: terminalOutput,
};

export const GEMINI: PublishedAgent = {
  name: "gemini",
  id: "gemini",
  command: (modules) => ["node", join(modules, "@google/gemini-cli/bundle/gemini.js"), "--acp"],
  env: (modelUrl) => ({ GEMINI_API_KEY: "stand-in-0123456789", GOOGLE_GEMINI_BASE_URL: modelUrl }),
  prepareHome(home) {
    mkdirSync(join(home, ".gemini"), { recursive: true });
    const settings = {
      security: { auth: { selectedType: "gemini-api-key" }, folderTrust: { enabled: false } },
      privacy: { usageStatisticsEnabled: false },
      general: { enableAutoUpdate: false, enableAutoUpdateNotification: false },
    };
    writeFileSync(join(home, ".gemini", "settings.json"), JSON.stringify(settings));
  },
  asks: false,
  // Gemini CLI shows its clients no output, and tells its model alone.
  outputOf: (updates) => textOf(updates).replaceAll("\\n", "\n"),
};

/** The output that the updates add to terminals by the convention of `_meta.terminal_output`. */
function terminalOutput(updates: SessionUpdate[]): string {
  type Meta = { terminal_output?: { data: string } };
  return updates.map(({ _meta }) => ((_meta ?? {}) as Meta).terminal_output?.data ?? "").join("");
}
