import { type Caller, mayAdminister, mayUseWorkspace, type Scope } from "../protocol/caller.ts";

/**
 * Throws unless the caller has one of the scopes in the workspace whose object is called `<tenant>/<workspace>`. The
 * Worker has already refused all other callers, so a caller without the right is a fault of ours.
 */
export function checkRight({ name }: DurableObjectId, caller: Caller, ...scopes: readonly Scope[]): void {
  const workspace = workspaceNamed(name, caller);
  const isTheirs = workspace !== undefined && mayUseWorkspace(caller, workspace);
  if (!isTheirs || !scopes.some((scope) => caller.scopes.includes(scope)))
    throw new Error("Not this caller's workspace");
}

/** Throws unless the caller administers the workspace, or its tenant. */
export function checkAdministrator({ name }: DurableObjectId, caller: Caller): void {
  const workspace = workspaceNamed(name, caller);
  if (workspace === undefined || !mayAdminister(caller, workspace))
    throw new Error("Not this caller's workspace");
}

function workspaceNamed(name: string | undefined, { tenant }: Caller): string | undefined {
  return name?.startsWith(`${tenant}/`) ? name.slice(tenant.length + 1) : undefined;
}
