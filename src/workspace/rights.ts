import { type Caller, mayUseWorkspace, type Scope } from "../protocol/caller.ts";

/**
 * Throws unless the caller may do this in the workspace of that name, `<tenant>/<workspace>`. The Worker has let
 * nobody else through: who comes here without the right has found a hole.
 */
export function checkRight({ name }: DurableObjectId, caller: Caller, ...scopes: readonly Scope[]): void {
  const workspace = name?.startsWith(`${caller.tenant}/`) ? name.slice(caller.tenant.length + 1) : undefined;
  const may = workspace !== undefined && mayUseWorkspace(caller, workspace);
  if (!may || !scopes.some((scope) => caller.scopes.includes(scope)))
    throw new Error("Not this caller's workspace");
}
