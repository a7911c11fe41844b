import { matchesPattern } from "./name-pattern.ts";

/** What a token can allow. `host` is for agent hosts and stands alone; the others are for clients. */
export const SCOPES = [
  "session:read",
  "session:prompt",
  "permission:answer",
  "workspace:admin",
  "share",
  "host",
] as const;
export type Scope = (typeof SCOPES)[number];

export function isScope(text: string): text is Scope {
  return (SCOPES as readonly string[]).includes(text);
}

/** A host runs code for one workspace: a token that could do more than that is a mistake. Says which, if so. */
export function badHost(scopes: readonly Scope[], workspaces: readonly string[]): string | undefined {
  if (!scopes.includes("host")) return undefined;
  if (scopes.length > 1) return "it is for a host and for a client";
  if (workspaces.length !== 1 || workspaces[0]?.includes("*")) return "a host has exactly one workspace";
  return undefined;
}

/** Who calls, as the Worker established it from a token. Every object checks it again against what it holds. */
export type Caller = {
  readonly tenant: string;
  readonly subject: string;
  /** Names, or patterns with a `*`. A host has exactly one, a name. */
  readonly workspaces: readonly string[];
  readonly scopes: readonly Scope[];
  /** Seconds since the epoch. */
  readonly expires: number;
  /** The token's own id, if it has one: what it can be revoked by. */
  readonly jti?: string | undefined;
  /** The only session it may know of: it came by a link. */
  readonly session?: string | undefined;
  /** Of which it sees the conversation alone: nothing that tools were given or that came out of them. */
  readonly redacted?: true | undefined;
};

/** What a client may do in a session: steer it, or look on. Which one follows from its scopes alone. */
export type Role = "controller" | "observer";

export function roleOf({ scopes }: Caller): Role {
  return scopes.includes("session:prompt") ? "controller" : "observer";
}

/** Whether the agent's questions are put to it: who looks on answers nothing. */
export function mayAnswer(caller: Caller): boolean {
  return roleOf(caller) === "controller" && caller.scopes.includes("permission:answer");
}

export function isHost({ scopes }: Caller): boolean {
  return scopes.includes("host");
}

/** Whether it may read sessions at all: as a controller or as an observer, but not as a host. */
export function isReader({ scopes }: Caller): boolean {
  return scopes.includes("session:read") || scopes.includes("session:prompt");
}

/** The same caller, looking on. */
export function asObserver(caller: Caller): Caller {
  return { ...caller, scopes: caller.scopes.filter((scope) => scope === "session:read") };
}

export function mayUseWorkspace(caller: Caller, workspace: string): boolean {
  return caller.workspaces.some((pattern) => matchesPattern(pattern, workspace));
}

/** The workspace of a caller that names none: the first of its token that is a name. */
export function ownWorkspace({ workspaces }: Caller): string | undefined {
  return workspaces.find((name) => !name.includes("*"));
}
