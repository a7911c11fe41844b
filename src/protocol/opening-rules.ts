import { z } from "zod";
import { confinePath } from "./confine-path.ts";
import { isRecord, type JsonObject } from "./json-value.ts";

/**
 * The rules for what a client may bring along when it opens a session. MCP servers on stdio are commands that the agent runs, more
 * directories are more files, and agents read settings from `_meta` that switch their questions off. So the workspace
 * decides, and the session holds clients to it.
 */

const MCP_SERVERS = z.enum(["none", "http", "all"]);
const DIRECTORIES = z.enum(["root", "all"]);
const META = z.union([z.literal("all"), z.array(z.string().min(1).max(200)).max(100)]);

/** Null: the default, which depends on whether the workspace has a container. */
export const OPENING_SETTINGS = {
  /** MCP servers that clients may configure: none, those reached by http, or any, commands included. */
  mcpServers: MCP_SERVERS.nullable(),
  /** `additionalDirectories` that clients may name: those within the workspace's root, or any. */
  additionalDirectories: DIRECTORIES.nullable(),
  /** Keys of `_meta` that reach the agent. */
  openingMeta: META.nullable(),
};
type OpeningSettings = { [Name in keyof OpeningRules]: OpeningRules[Name] | null };

export const OPENING_RULES = z.object({
  mcpServers: MCP_SERVERS,
  additionalDirectories: DIRECTORIES,
  openingMeta: META,
});
export type OpeningRules = z.infer<typeof OPENING_RULES>;

/** A developer's own host: whoever may prompt is the developer. */
export const OPEN_RULES: OpeningRules = {
  mcpServers: "all",
  additionalDirectories: "all",
  openingMeta: "all",
};

/** A container serves many people. Keys for tracing, which ACP reserves, say nothing to an agent. */
const CONTAINER_RULES: OpeningRules = {
  mcpServers: "http",
  additionalDirectories: "root",
  openingMeta: ["traceparent", "tracestate", "baggage"],
};

export function openingRules(settings: OpeningSettings & { container: unknown }): OpeningRules {
  const otherwise = settings.container === null ? OPEN_RULES : CONTAINER_RULES;
  return {
    mcpServers: settings.mcpServers ?? otherwise.mcpServers,
    additionalDirectories: settings.additionalDirectories ?? otherwise.additionalDirectories,
    openingMeta: settings.openingMeta ?? otherwise.openingMeta,
  };
}

export function allowsEverything({ mcpServers, additionalDirectories, openingMeta }: OpeningRules): boolean {
  return mcpServers === "all" && additionalDirectories === "all" && openingMeta === "all";
}

/** The setting has the name of the member that it does not allow. */
export type OpeningRefusal = { setting: "mcpServers" | "additionalDirectories"; message: string };

/** `dropped` names the keys that do not reach the agent. */
export type CheckedOpening = { params: JsonObject; dropped: string[] } | { refusal: OpeningRefusal };

/**
 * The parameters of an opening under the rules, made anew from the parts that the rules know: a part that two readers of
 * JSON could understand differently, such as a repeated key, does not get through. `root` is the workspace's directory
 * on the host. Editors send `_meta` without being asked, so a key of it that is not allowed is dropped; everything else
 * that is not allowed is refused.
 */
export function checkOpening(given: JsonObject, rules: OpeningRules, root: string): CheckedOpening {
  const { cwd, mcpServers, additionalDirectories, _meta, ...others } = given;
  const [refusal] = openingRefusals(given, rules, root);
  if (refusal) return { refusal };
  const servers = allowedServers(mcpServers, rules.mcpServers);
  const directories = allowedDirectories(additionalDirectories, cwd, root, rules.additionalDirectories) ?? [];
  const meta = Object.entries(isRecord(_meta) ? _meta : {});
  const more = Object.entries(others);
  const isKept = ([key]: [string, unknown]) => isAllowedKey(key, rules.openingMeta);
  const isOther = ([key]: [string, unknown]) => rules.openingMeta === "all" && !LOOKS_RESTRICTED.test(key);
  const kept = meta.filter(isKept);
  return {
    params: {
      ...Object.fromEntries(more.filter(isOther)),
      cwd,
      mcpServers: servers,
      ...(directories.length === 0 ? {} : { additionalDirectories: directories }),
      ...(kept.length === 0 ? {} : { _meta: Object.fromEntries(kept) }),
    },
    dropped: [
      ...meta.filter((entry) => !isKept(entry)).map(([key]) => `_meta.${key}`),
      ...more.filter((entry) => !isOther(entry)).map(([key]) => key),
    ],
  };
}

/** The refusal of each member of an opening that the rules do not allow. */
export function openingRefusals(given: JsonObject, rules: OpeningRules, root: string): OpeningRefusal[] {
  const { cwd, mcpServers, additionalDirectories } = given;
  const servers = allowedServers(mcpServers, rules.mcpServers);
  const directories = allowedDirectories(additionalDirectories, cwd, root, rules.additionalDirectories);
  return [
    servers === undefined ? refuse("mcpServers", SERVERS_REFUSED[rules.mcpServers]) : [],
    directories === undefined ? refuse("additionalDirectories", DIRECTORIES_REFUSED) : [],
  ].flat();
}

/**
 * The refusal of a message after the opening that brings along what the rules do not allow at the opening: an agent may
 * read such members of any message.
 */
export function checkLaterMembers(
  given: JsonObject,
  rules: OpeningRules,
  root: string,
): OpeningRefusal | undefined {
  const { mcpServers, additionalDirectories } = rules;
  if (mcpServers === "all" && additionalDirectories === "all") return undefined;
  for (const [key, value] of Object.entries(given)) {
    if (mcpServers !== "all" && LOOKS_LIKE_SERVERS.test(key)) {
      const isAllowed = key === "mcpServers" && allowedServers(value, mcpServers) !== undefined;
      if (!isAllowed) return refuse("mcpServers", SERVERS_REFUSED[mcpServers]);
    }
    if (additionalDirectories !== "all" && LOOKS_LIKE_DIRECTORIES.test(key)) {
      const isExact = key === "additionalDirectories";
      if (!isExact || allowedDirectories(value, undefined, root, additionalDirectories) === undefined)
        return refuse("additionalDirectories", DIRECTORIES_REFUSED);
    }
  }
  return undefined;
}

function refuse(setting: OpeningRefusal["setting"], message: string): OpeningRefusal {
  return { setting, message: `${message} (the workspace's setting ${setting})` };
}

const SERVERS_REFUSED = {
  none: "This workspace takes no MCP servers from clients",
  http: "This workspace takes only MCP servers of the type http or sse from clients, and no commands",
  all: "mcpServers must be a list",
} as const;
const DIRECTORIES_REFUSED = "This workspace takes only additional directories within its root from clients";

/** Spellings that a lenient reader would take for a restricted member. */
const LOOKS_LIKE_SERVERS = /^[_-]*mcp[_-]?servers$/i;
const LOOKS_LIKE_DIRECTORIES = /^[_-]*additional[_-]?directories$/i;
const LOOKS_RESTRICTED = /^[_-]*(mcp[_-]?servers|additional[_-]?directories|meta)$/i;

/** Undefined if one of them is not allowed. */
function allowedServers(given: unknown, rule: OpeningRules["mcpServers"]): unknown {
  if (given === undefined || given === null) return [];
  if (rule === "all") return given;
  if (!Array.isArray(given)) return undefined;
  if (given.length === 0) return [];
  const servers = given.map(remoteServer);
  return rule === "none" || servers.includes(undefined) ? undefined : servers;
}

/** The server without anything that could make an agent run it as a command. */
function remoteServer(server: unknown): JsonObject | undefined {
  if (!isRecord(server) || (server.type !== "http" && server.type !== "sse")) return undefined;
  const { type, name, url, headers, ...others } = server;
  const isRemote = typeof url === "string" && Object.keys(others).every((key) => key === "_meta");
  return isRemote ? { type, name, url, headers: headers ?? [] } : undefined;
}

/** The directories on the host; undefined if one of them is outside the root. */
function allowedDirectories(
  given: unknown,
  cwd: unknown,
  root: string,
  rule: OpeningRules["additionalDirectories"],
): unknown[] | undefined {
  if (given === undefined || given === null) return [];
  if (!Array.isArray(given)) return undefined;
  const within = given.map((path: unknown) => {
    const moved = typeof cwd === "string" && cwd !== "/" ? confinePath(path, cwd, root) : undefined;
    return moved ?? confinePath(path, root, root);
  });
  if (rule === "all") return given.map((path: unknown, i) => within[i] ?? path);
  return within.includes(undefined) ? undefined : within;
}

/** The gateway's own keys are no settings of an agent. */
function isAllowedKey(key: string, rule: OpeningRules["openingMeta"]): boolean {
  return rule === "all" || key.startsWith("acp-edge/") || rule.includes(key);
}
