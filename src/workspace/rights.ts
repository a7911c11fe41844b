import { type Caller, mayUseWorkspace, type Scope } from "../protocol/caller.ts";

/**
 * Throws unless the caller has one of the scopes in the workspace whose object is called `<tenant>/<workspace>`. The
 * Worker has already refused all other callers, so a caller without the right is a fault of ours.
 */
export function checkRight({ name }: DurableObjectId, caller: Caller, ...scopes: readonly Scope[]): void {
  const workspace = name?.startsWith(`${caller.tenant}/`) ? name.slice(caller.tenant.length + 1) : undefined;
  const isTheirs = workspace !== undefined && mayUseWorkspace(caller, workspace);
  if (!isTheirs || !scopes.some((scope) => caller.scopes.includes(scope)))
    throw new Error("Not this caller's workspace");
}
