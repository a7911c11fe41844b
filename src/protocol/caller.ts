import { matchesPattern } from "./name-pattern.ts";

/** The rights that a token can carry. `host` is for agent hosts and excludes the others, which are for clients. */
export const SCOPES = [
  "session:read",
  "session:prompt",
  "permission:answer",
  "workspace:admin",
  "tenant:admin",
  "share",
  "host",
] as const;
export type Scope = (typeof SCOPES)[number];

export function isScope(text: string): text is Scope {
  return (SCOPES as readonly string[]).includes(text);
}

/** The mistake in the rights of a host token, if any. A host runs code for one workspace and needs no more rights. */
export function hostTokenProblem(
  scopes: readonly Scope[],
  workspaces: readonly string[],
): string | undefined {
  if (!scopes.includes("host")) return undefined;
  if (scopes.length > 1) return "it is for a host and for a client";
  if (workspaces.length !== 1 || workspaces[0]?.includes("*")) return "a host has exactly one workspace";
  return undefined;
}

/** The caller that the Worker read from a token. Every object checks the caller again against its own data. */
export type Caller = {
  readonly tenant: string;
  readonly subject: string;
  /** Names of workspaces, or patterns with a `*`. A host has exactly one name. */
  readonly workspaces: readonly string[];
  readonly scopes: readonly Scope[];
  /** Seconds since the epoch. */
  readonly expires: number;
  /** The token's own id, by which it can be revoked. */
  readonly jti?: string | undefined;
  /** The name of the only host that may use the token. Absent: any host of the workspace may. */
  readonly host?: string | undefined;
  /** The only session that the caller may know of: the caller came by a share link. */
  readonly session?: string | undefined;
  /** The caller sees the conversation only, not the inputs and outputs of tools. */
  readonly redacted?: true | undefined;
};

/** A controller steers a session, an observer reads it. The role follows from the caller's scopes alone. */
export type Role = "controller" | "observer";

export function roleOf({ scopes }: Caller): Role {
  return scopes.includes("session:prompt") ? "controller" : "observer";
}

/** Whether the caller gets the agent's requests. An observer never does. */
export function mayAnswer(caller: Caller): boolean {
  return roleOf(caller) === "controller" && caller.scopes.includes("permission:answer");
}

export function isHost({ scopes }: Pick<Caller, "scopes">): boolean {
  return scopes.includes("host");
}

/** Whether the caller may read sessions at all, as controller or observer. A host may not. */
export function isReader({ scopes }: Caller): boolean {
  return scopes.includes("session:read") || scopes.includes("session:prompt");
}

/** The caller reduced to the rights of an observer. */
export function asObserver(caller: Caller): Caller {
  return { ...caller, scopes: caller.scopes.filter((scope) => scope === "session:read") };
}

export function mayUseWorkspace(caller: Caller, workspace: string): boolean {
  return caller.workspaces.some((pattern) => matchesPattern(pattern, workspace));
}

/** Whether the caller may end and restore access to the workspace's sessions, and see who did. */
export function mayAdminister(caller: Caller, workspace: string): boolean {
  const isAdministrator =
    caller.scopes.includes("workspace:admin") &&
    caller.session === undefined &&
    mayUseWorkspace(caller, workspace);
  return isAdministrator || isTenantAdmin(caller);
}

/** Whether the caller's rights concern the whole tenant, whatever workspaces its token names. */
export function isTenantAdmin({ scopes, session }: Caller): boolean {
  return scopes.includes("tenant:admin") && session === undefined;
}

/** The only workspace in which the caller can do anything; undefined if there may be others. */
export function onlyWorkspace(caller: Pick<Caller, "workspaces" | "scopes">): string | undefined {
  const [first, ...others] = caller.workspaces;
  if (first === undefined || others.length > 0 || first.includes("*")) return undefined;
  return caller.scopes.includes("tenant:admin") ? undefined : first;
}

/** The workspace of a request that names none: the first name, not pattern, of the token. */
export function ownWorkspace({ workspaces }: Caller): string | undefined {
  return workspaces.find((name) => !name.includes("*"));
}
