import type { Context } from "hono";
import { CHAIN_RESPONSE_MS, callObject } from "../durable/object-call.ts";
import {
  type ConnectionObject,
  connectionObject,
  type SessionObject,
  sessionObject,
  type TenantObject,
  tenantObject,
  type WorkspaceObject,
  workspaceObject,
} from "../durable/objects.ts";
import { mayUseWorkspace, ownWorkspace } from "../protocol/caller.ts";
import { isUuid } from "../protocol/ids.ts";
import { unknownSession } from "../protocol/refusal.ts";
import type { AppEnv } from "./app-env.ts";
import { RefusalException } from "./refusal-response.ts";

/**
 * The objects that a request is about, within the caller's tenant. `askX` may call the object more than once, so it is
 * for reads and for changes that may be repeated. Other changes use the stub: if the object is lost meanwhile, nobody
 * knows whether the change was made, and the caller of the API gets 503 and decides.
 */

/** The session itself decides whether the caller may see it. */
export function sessionOf(c: Context<AppEnv>, id: string): SessionObject {
  if (!isUuid(id)) throw new RefusalException(unknownSession(id));
  return sessionObject(c.env, c.get("caller").tenant, id);
}

/** `askSession` for one session. */
export type AskSession = <R>(call: (session: SessionObject) => R) => Promise<Awaited<R>>;

export function askSession<R>(
  c: Context<AppEnv>,
  id: string,
  call: (session: SessionObject) => R,
): Promise<Awaited<R>> {
  return callObject(() => sessionOf(c, id), call, { timeoutMs: CHAIN_RESPONSE_MS });
}

export function workspaceOf(c: Context<AppEnv>, id: string): WorkspaceObject {
  const caller = c.get("caller");
  // The bearer of a share link may see one session, and nothing around it.
  if (!mayUseWorkspace(caller, id) || caller.session !== undefined) throw unknownWorkspace();
  return workspaceObject(c.env, caller.tenant, id);
}

export function askWorkspace<R>(
  c: Context<AppEnv>,
  id: string,
  call: (workspace: WorkspaceObject) => R,
): Promise<Awaited<R>> {
  return callObject(() => workspaceOf(c, id), call, { timeoutMs: CHAIN_RESPONSE_MS });
}

/** The name of a connection has no tenant: the connection itself compares its own caller's. */
export function connectionOf(c: Context<AppEnv>, id: string): ConnectionObject {
  return connectionObject(c.env, c.get("caller").tenant, id);
}

export function tenantOf(c: Context<AppEnv>): TenantObject {
  return tenantObject(c.env, c.get("caller").tenant);
}

export function askTenant<R>(c: Context<AppEnv>, call: (tenant: TenantObject) => R): Promise<Awaited<R>> {
  return callObject(() => tenantOf(c), call, { timeoutMs: CHAIN_RESPONSE_MS });
}

/** The id of the workspace that the request names, or else of the first that the token names. */
export function requestedWorkspace(c: Context<AppEnv>): string {
  const workspace = c.req.query("workspace") ?? ownWorkspace(c.get("caller"));
  if (workspace !== undefined) return workspace;
  throw new RefusalException({ reason: "invalid", message: "Name the workspace in ?workspace=" });
}

export function unknownWorkspace(): RefusalException {
  return new RefusalException({ reason: "not-found", message: "Unknown workspace" });
}
