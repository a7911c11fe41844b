/** Who calls, as the Worker established it from a token. Every object checks it again against what it holds. */
export type Caller = {
  readonly tenant: string;
  readonly subject: string;
  readonly workspaces: readonly string[];
  readonly scopes: readonly string[];
  /** Seconds since the epoch. */
  readonly expires: number;
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

/** The same caller, looking on. */
export function asObserver(caller: Caller): Caller {
  return { ...caller, scopes: caller.scopes.filter((scope) => scope === "session:read") };
}

export function mayUseWorkspace(caller: Caller, workspace: string): boolean {
  return caller.workspaces.includes(workspace) || caller.workspaces.includes("*");
}
