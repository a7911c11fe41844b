import type { Context } from "hono";
import { HTTPException } from "hono/http-exception";
import { mayUseWorkspace } from "../protocol/caller.ts";
import type { WorkspaceState } from "../workspace/workspace.ts";
import type { AppEnv } from "./auth.ts";

/** The workspace a request names, or its token is for. */
export function chosenWorkspace(c: Context<AppEnv>): string {
  const { workspaces } = c.get("caller");
  const workspace = c.req.query("workspace") ?? workspaces.find((name) => name !== "*");
  if (workspace === undefined) throw new HTTPException(400, { message: "Say which workspace: ?workspace=" });
  return workspace;
}

export function workspaceOf(c: Context<AppEnv>, id: string): DurableObjectStub<WorkspaceState> {
  const caller = c.get("caller");
  if (!mayUseWorkspace(caller, id)) throw new HTTPException(404, { message: "Unknown workspace" });
  return c.env.WORKSPACE_STATE_DO.getByName(`${caller.tenant}/${id}`);
}
