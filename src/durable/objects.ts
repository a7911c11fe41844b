import type { ObjectAddress } from "../protocol/rpc.ts";
import { regionOf } from "./regions.ts";

/**
 * Objects by name. This file alone makes stubs, so where the objects of a tenant are is decided here once.
 *
 * The name of a session, a workspace, a subject or a container begins with its tenant, so an id that another tenant asks for names
 * another object, which is empty. A tenant's name has no `/`. The name of a connection is a random id.
 */
export type SessionObject = ReturnType<typeof sessionObject>;
export type WorkspaceObject = ReturnType<typeof workspaceObject>;
export type ConnectionObject = ReturnType<typeof connectionObject>;
export type TenantObject = ReturnType<typeof tenantObject>;

/** `workspace` matters to the first use of a session, which decides where the session is. */
export function sessionObject(env: Env, tenant: string, id: string, workspace?: string) {
  return stub(env, env.ACP_SESSION_DO, tenant, objectName(tenant, id), workspace);
}

export function workspaceObject(env: Env, tenant: string, id: string) {
  return stub(env, env.WORKSPACE_STATE_DO, tenant, objectName(tenant, id), id);
}

export function connectionObject(env: Env, tenant: string, id: string) {
  return stub(env, env.ACP_CONNECTION_DO, tenant, id);
}

export function tenantObject(env: Env, tenant: string) {
  return stub(env, env.TENANT_DO, tenant, tenant);
}

/** The object that has the tenant's jurisdiction on record. It is in none itself, so that it can always be found. */
export function jurisdictionRecord(env: Env, tenant: string) {
  return env.TENANT_DO.getByName(objectName(tenant, "jurisdiction"));
}

/** The object that a tenant would have without a jurisdiction. */
export function unrestrictedTenant(env: Env, tenant: string) {
  return env.TENANT_DO.getByName(tenant);
}

/** The object of one person, program or host of a tenant, or of the bearers of one share. */
export function subjectObject(env: Env, tenant: string, subject: string) {
  return stub(env, env.SUBJECT_DO, tenant, objectName(tenant, subject));
}

/** The object that starts the container of a workspace; undefined for a gateway without containers. */
export function containerObject(env: Env, tenant: string, workspace: string) {
  const containers = env.AGENT_CONTAINER;
  return containers && stub(env, containers, tenant, objectName(tenant, workspace), workspace);
}

/** The object that holds a registered socket. */
export function socketHolder(env: Env, tenant: string, { class: kind, name }: ObjectAddress): SocketHolder {
  switch (kind) {
    case "connection":
      return stub(env, env.ACP_CONNECTION_DO, tenant, name);
    case "session":
      return stub(env, env.ACP_SESSION_DO, tenant, name);
    case "workspace":
      return stub(env, env.WORKSPACE_STATE_DO, tenant, name);
  }
}

/** The methods that every object with registered sockets has. */
type SocketHolder = {
  endSocket(id: string, reason: string): Promise<void>;
  holdsSocket(id: string): Promise<boolean>;
};

export function objectName(tenant: string, id: string): string {
  return `${tenant}/${id}`;
}

/** The tenant that a session or a workspace belongs to, by the object's own name. */
export function owningTenant({ name = "" }: DurableObjectId): string {
  return name.slice(0, Math.max(0, name.indexOf("/")));
}

/** The location is a hint for the first use of the object; later it changes nothing. */
function stub<T extends Rpc.DurableObjectBranded>(
  { REGIONS }: Pick<Env, "REGIONS">,
  objects: DurableObjectNamespace<T>,
  tenant: string,
  name: string,
  workspace?: string,
): DurableObjectStub<T> {
  const { jurisdiction, location } = regionOf(REGIONS, tenant, workspace);
  const within = jurisdiction === null ? objects : objects.jurisdiction(jurisdiction);
  return location === undefined ? within.getByName(name) : within.getByName(name, { locationHint: location });
}
