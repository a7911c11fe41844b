import type { Context } from "hono";
import {
  type SessionObject,
  sessionObject,
  type WorkspaceObject,
  workspaceObject,
} from "../durable/object-names.ts";
import { mayUseWorkspace, ownWorkspace } from "../protocol/caller.ts";
import { isUuid } from "../protocol/ids.ts";
import { unknownSession } from "../protocol/refusal.ts";
import type { AppEnv } from "./app-env.ts";
import { RefusalException } from "./refusal-response.ts";

/** The objects that a request is about, within the caller's tenant. */

/** The session itself decides whether the caller may see it. */
export function sessionOf(c: Context<AppEnv>, id: string): SessionObject {
  if (!isUuid(id)) throw new RefusalException(unknownSession(id));
  return sessionObject(c.env, c.get("caller").tenant, id);
}

export function workspaceOf(c: Context<AppEnv>, id: string): WorkspaceObject {
  const caller = c.get("caller");
  // The bearer of a share link may see one session, and nothing around it.
  if (!mayUseWorkspace(caller, id) || caller.session !== undefined) throw unknownWorkspace();
  return workspaceObject(c.env, caller.tenant, id);
}

export function tenantOf(c: Context<AppEnv>) {
  return c.env.TENANT_DO.getByName(c.get("caller").tenant);
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
