import type { JWTPayload } from "jose";
import { openingRules } from "../../protocol/opening-rules.ts";
import type { HostView, Share, WorkspaceView } from "../../protocol/rest.ts";
import type { SecurityFinding } from "../../protocol/security-report.ts";
import { brief } from "../text-format.ts";

/** Pure judgements about what the gateway reports and about the user's own token. */

const HOUR_MS = 3_600_000;
const DAY_MS = 24 * HOUR_MS;
/** A link or a token that lives longer than this is worth a word. */
const LONG_MS = 30 * DAY_MS;
const LONG_TOKEN_MS = 7 * DAY_MS;

type JudgedHost = Pick<HostView, "name" | "state" | "isolation" | "token">;
type JudgedWorkspace = Pick<
  WorkspaceView,
  "policy" | "clientIo" | "container" | "mcpServers" | "additionalDirectories" | "openingMeta"
> & { hosts: readonly JudgedHost[] };

export function workspaceFindings(workspace: JudgedWorkspace): SecurityFinding[] {
  return [
    permissionPolicy(workspace.policy),
    clientFiles(workspace.clientIo),
    openings(workspace),
    ...workspace.hosts.filter(({ state }) => state !== "gone").flatMap(hostFindings),
  ];
}

/** An agent without isolation can read its host's token, and with it all secrets of the workspace. */
function hostFindings({ name, isolation = "unknown", token }: JudgedHost): SecurityFinding[] {
  const host = brief(name);
  const isIsolated = isolation !== "none" && isolation !== "unknown";
  const found: SecurityFinding[] = isIsolated
    ? [{ id: "isolation", level: "ok", message: `host ${host} isolates its agents by ${brief(isolation)}` }]
    : [
        {
          id: "isolation",
          level: "warning",
          message: `agents of host ${host} can read its token, and so the workspace's secrets`,
          hint: "Install bubblewrap or name an --agent-user, and start the host with --isolation require.",
        },
      ];
  if (token?.jti === null)
    found.push({
      id: "host-token",
      level: "warning",
      message: `the token of host ${host} has no id, so only all tokens of ${brief(token.subject)} can be revoked`,
      hint: "Give the host a token with a `jti`: `acp-edge token host` makes one.",
    });
  return found;
}

function openings(workspace: JudgedWorkspace): SecurityFinding {
  const rules = openingRules(workspace);
  if (rules.mcpServers !== "all" && rules.openingMeta !== "all")
    return {
      id: "openings",
      level: "ok",
      message: "clients bring no commands and no settings of agents along",
    };
  return {
    id: "openings",
    level: "warning",
    message: "whoever may prompt may also give the agent commands to run and settings that skip questions",
    hint: "Set `mcpServers` and `openingMeta` of the workspace, unless those who prompt own the host.",
  };
}

function permissionPolicy({
  default: standard,
  byKind,
  timeoutMs,
  onTimeout,
}: WorkspaceView["policy"]): SecurityFinding {
  if (timeoutMs !== null && onTimeout === "allow")
    return {
      id: "policy",
      level: "failed",
      message: "a permission request that nobody answers is allowed",
      hint: 'Set `onTimeout` of the policy to "reject".',
    };
  const allowed = Object.entries(byKind).flatMap(([kind, action]) => (action === "allow" ? [kind] : []));
  const risky = allowed.filter((kind) => RISKY_KINDS.has(kind));
  if (standard === "allow" || risky.length > 0)
    return {
      id: "policy",
      level: "warning",
      message: `nobody is asked before an agent may ${standard === "allow" ? "do anything" : risky.join(", ")}`,
      hint: "Change `policy` of the workspace, unless its hosts are containers that may be lost.",
    };
  return { id: "policy", level: "ok", message: POLICY_WORDS[standard] };
}

const POLICY_WORDS = {
  ask: "people are asked before an agent does anything risky",
  reject: "permission requests are rejected unless the policy allows their kind",
} as const;

const RISKY_KINDS: ReadonlySet<string> = new Set(["execute", "delete", "move", "edit", "fetch", "other"]);

function clientFiles(clientIo: WorkspaceView["clientIo"]): SecurityFinding {
  if (clientIo === "host")
    return { id: "client-io", level: "ok", message: "agents use the files and terminals of their host" };
  return {
    id: "client-io",
    level: "warning",
    message: "agents use the files and terminals of the editors' machines",
    hint: "Set `clientIo` to host, unless everybody who prompts here trusts every agent here.",
  };
}

export function linkFindings(shares: readonly Share[], now: number): SecurityFinding[] {
  const lasting = shares.filter(({ expiresAt }) => Date.parse(expiresAt) - now > LONG_MS);
  const open = shares.filter(({ redact }) => !redact).length;
  if (lasting.length > 0)
    return [
      {
        id: "links",
        level: "warning",
        message: `${lasting.length} of ${shares.length} links are good for more than 30 days, the first to session ${brief(lasting[0]?.session ?? "")}`,
        hint: "`acp-edge share ls` lists links, `acp-edge share rm` takes one back.",
      },
    ];
  return [{ id: "links", level: "ok", message: `${shares.length} links, ${open} of them not redacted` }];
}

export function tokenFindings({ exp, iat, scopes, scope }: JWTPayload, now: number): SecurityFinding[] {
  const lives = exp === undefined ? Number.POSITIVE_INFINITY : exp * 1000 - (iat ? iat * 1000 : now);
  const age: SecurityFinding =
    lives > LONG_TOKEN_MS
      ? {
          id: "token-age",
          level: "warning",
          message: `your token is good for ${Math.round(lives / DAY_MS)} days`,
          hint: "Shorter tokens are lost more cheaply: log in at a provider, or use a token command.",
        }
      : { id: "token-age", level: "ok", message: `your token is good for ${duration(lives)}` };
  const rights = rightsOf(scopes ?? scope);
  const admin = rights.filter((one) => one.endsWith(":admin"));
  if (admin.length === 0) return [age];
  return [
    age,
    {
      id: "token-rights",
      level: "warning",
      message: `your token has the scopes ${admin.join(" and ")}`,
      hint: "For daily work use a token with session:read, session:prompt and permission:answer alone.",
    },
  ];
}

function rightsOf(claim: unknown): string[] {
  if (Array.isArray(claim)) return claim.map(String);
  return typeof claim === "string" ? claim.split(" ") : [];
}

function duration(ms: number): string {
  if (ms >= 2 * DAY_MS) return `${Math.round(ms / DAY_MS)} days`;
  return ms >= 2 * HOUR_MS ? `${Math.round(ms / HOUR_MS)} hours` : `${Math.ceil(ms / 60_000)} minutes`;
}
