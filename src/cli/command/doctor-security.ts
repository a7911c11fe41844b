import { statSync } from "node:fs";
import type { SecurityFinding } from "../../protocol/security-report.ts";
import { CliError, EXIT } from "../cli-error.ts";
import { ApiClient } from "../gateway/api-client.ts";
import { configPath } from "../gateway/config-file.ts";
import type { Target } from "../gateway/target.ts";
import { claimsOf } from "../gateway/token-source.ts";
import type { Step } from "./doctor-steps.ts";
import { linkFindings, tokenFindings, workspaceFindings } from "./workspace-findings.ts";

/** Says how a deployment stands: the gateway's configuration, the workspace, the links, and this user's own token. */
export async function* securitySteps(target: Target): AsyncGenerator<Step> {
  const api = new ApiClient(target);
  const token = await target.token();
  // A gateway that is away, or refuses the token, is no state of security.
  await api.sessions(1);
  const now = Date.now();
  const workspace = target.workspace ?? ownWorkspace(token);
  const parts: [part: string, () => Promise<SecurityFinding[]>][] = [
    ["gateway", async () => (await api.security()).findings],
    ["links", async () => linkFindings((await api.shares()).shares, now)],
    ...(workspace === undefined
      ? []
      : ([[workspace, async () => workspaceFindings(await api.workspace(workspace))]] as [
          string,
          () => Promise<SecurityFinding[]>,
        ][])),
    ["this machine", async () => [...configurationFile(), ...tokenFindings(claimsOf(token) ?? {}, now)]],
  ];
  for (const [part, find] of parts) {
    for (const finding of await attempt(find)) yield stepOf(part, finding);
  }
}

function stepOf(part: string, { level, message, hint }: SecurityFinding): Step {
  const rest = { detail: message, ...(hint !== undefined && { hint }) };
  if (level === "failed") return { name: part, status: "failed", code: EXIT.error, ...rest };
  return { name: part, status: level, ...rest };
}

/** A part that the token may not ask about is said, and no reason to leave out the others. */
async function attempt(find: () => Promise<SecurityFinding[]>): Promise<SecurityFinding[]> {
  try {
    return await find();
  } catch (error) {
    if (!(error instanceof CliError) || error.code !== EXIT.unauthorized) throw error;
    const hint = "A token with workspace:admin and share can ask.";
    return [{ id: "unknown", level: "warning", message: `not known: ${error.message}`, hint }];
  }
}

function configurationFile(): SecurityFinding[] {
  const path = configPath(process.env);
  const mode = statSync(path, { throwIfNoEntry: false })?.mode;
  if (mode === undefined || process.platform === "win32") return [];
  if ((mode & 0o077) === 0) return [{ id: "config-file", level: "ok", message: `only you can read ${path}` }];
  return [
    {
      id: "config-file",
      level: "failed",
      message: `others on this machine can read ${path}, which may contain tokens`,
      hint: `chmod 600 ${path}`,
    },
  ];
}

function ownWorkspace(token: string): string | undefined {
  const claimed = claimsOf(token)?.workspaces;
  return Array.isArray(claimed) ? claimed.map(String).find((name) => !name.includes("*")) : undefined;
}
