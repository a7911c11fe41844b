import { fileURLToPath } from "node:url";
import { styleText } from "node:util";

/** The line that `--json` prints. */
export type ReadyInfo = {
  ready: true;
  url: string;
  /** Without the token. */
  wsUrl: string;
  token: string;
  hostToken: string;
  workspace: string;
  /** Process id of the runner: a SIGTERM to it ends everything. */
  pid: number;
};

export function startupBanner(info: ReadyInfo, root: string, agent: string | undefined): string {
  const bold = (text: string) => styleText("bold", text);
  const dim = (text: string) => styleText("dim", text);
  return `
${bold("acp-edge is ready")}

  ${dim("Gateway")}    ${bold(info.url)}
  ${dim("Workspace")}  ${root}
  ${dim("Agent")}      ${agent ?? "the built-in demo agent"}
  ${dim("Token")}      ${info.token}
  ${dim("WebSocket")}  ${info.wsUrl}?token=${info.token}

${dim("Zed, settings.json:")}

${zedSnippet(info)}

${dim("Press Ctrl-C to stop. Sessions are kept for the next start.")}
`;
}

/** The command of this checkout, which works without installation. */
const COMMAND = fileURLToPath(new URL("../command/main.ts", import.meta.url));

function zedSnippet({ wsUrl, token }: ReadyInfo): string {
  const env = { ACP_EDGE_TOKEN: token };
  const server = { type: "custom", command: process.execPath, args: [COMMAND, "connect", wsUrl], env };
  return JSON.stringify({ agent_servers: { "acp-edge": server } }, null, 2);
}
