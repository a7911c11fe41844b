import { type Context, Hono } from "hono";
import { HTTPException } from "hono/http-exception";
import { mayUseWorkspace } from "../protocol/caller.ts";
import { isUuid } from "../protocol/ids.ts";
import { type AppEnv, requireScope } from "./auth.ts";
import { requireUpgrade } from "./upgrade.ts";

/** Where agent hosts dial in: one control socket, and one socket for each session they run. */
export const host = new Hono<AppEnv>();

host.use(requireUpgrade, requireScope("host"));

host.get("/control", (c) => {
  const { tenant, workspace } = place(c);
  return c.env.WORKSPACE_STATE_DO.getByName(`${tenant}/${workspace}`).fetch("https://workspace/", {
    headers: { Upgrade: "websocket", "X-Acp-Workspace": JSON.stringify({ tenant, workspace }) },
  });
});

host.get("/sessions/:id", (c) => {
  const id = c.req.param("id");
  if (!isUuid(id)) throw new HTTPException(404, { message: "Unknown session" });
  return c.env.ACP_SESSION_DO.getByName(id).fetch("https://session/", {
    headers: { Upgrade: "websocket", "X-Acp-Host": JSON.stringify(place(c)) },
  });
});

function place(c: Context<AppEnv>): { tenant: string; workspace: string } {
  const caller = c.get("caller");
  const workspace = c.req.query("workspace") ?? caller.workspaces[0];
  if (workspace === undefined || !mayUseWorkspace(caller, workspace))
    throw new HTTPException(404, { message: "Unknown workspace" });
  return { tenant: caller.tenant, workspace };
}
