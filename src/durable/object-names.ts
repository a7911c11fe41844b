import type { AcpSession } from "../session/acp-session.ts";
import type { WorkspaceState } from "../workspace/workspace-state.ts";

/**
 * Which object has what. What belongs to a tenant has its name in the object's own: the same id asked for by another
 * tenant leads to another object, where there is nothing. A tenant has no `/` in its name.
 */

export function sessionObject(env: Env, tenant: string, id: string): DurableObjectStub<AcpSession> {
  return env.ACP_SESSION_DO.getByName(objectName(tenant, id));
}

export function workspaceObject(env: Env, tenant: string, id: string): DurableObjectStub<WorkspaceState> {
  return env.WORKSPACE_STATE_DO.getByName(objectName(tenant, id));
}

export function objectName(tenant: string, id: string): string {
  return `${tenant}/${id}`;
}
