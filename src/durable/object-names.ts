/**
 * Objects by name. The name of an object that belongs to a tenant begins with the tenant, so an id that another tenant
 * asks for names another object, which is empty. A tenant's name has no `/`.
 */
export type SessionObject = ReturnType<Env["ACP_SESSION_DO"]["getByName"]>;
export type WorkspaceObject = ReturnType<Env["WORKSPACE_STATE_DO"]["getByName"]>;

export function sessionObject(env: Env, tenant: string, id: string): SessionObject {
  return env.ACP_SESSION_DO.getByName(objectName(tenant, id));
}

export function workspaceObject(env: Env, tenant: string, id: string): WorkspaceObject {
  return env.WORKSPACE_STATE_DO.getByName(objectName(tenant, id));
}

export function objectName(tenant: string, id: string): string {
  return `${tenant}/${id}`;
}
