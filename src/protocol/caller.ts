/** Who calls, as the Worker established it from a token. Every object checks it again against what it holds. */
export type Caller = {
  readonly tenant: string;
  readonly subject: string;
  readonly workspaces: readonly string[];
  readonly scopes: readonly string[];
  /** Seconds since the epoch. */
  readonly expires: number;
};

export function mayUseWorkspace(caller: Caller, workspace: string): boolean {
  return caller.workspaces.includes(workspace) || caller.workspaces.includes("*");
}
