import { Hono } from "hono";
import { HTTPException } from "hono/http-exception";
import type { Handover } from "../connection/connection.ts";
import { mayUseWorkspace } from "../protocol/caller.ts";
import { type AppEnv, requireScope } from "./auth.ts";
import { requireUpgrade } from "./upgrade.ts";

/** Where ACP clients connect. The socket is handed over to an object of its own, which outlives this request. */
export const acp = new Hono<AppEnv>();

acp.get("/", requireUpgrade, requireScope("session:prompt"), (c) => {
  const caller = c.get("caller");
  const workspace = c.req.query("workspace") ?? caller.workspaces.find((name) => name !== "*");
  if (workspace === undefined) throw new HTTPException(400, { message: "Say which workspace: ?workspace=" });
  if (!mayUseWorkspace(caller, workspace)) throw new HTTPException(404, { message: "Unknown workspace" });
  const handover: Handover = {
    connection: crypto.randomUUID(),
    caller,
    workspace,
    agent: c.req.query("agent") ?? null,
  };
  return c.env.ACP_CONNECTION_DO.getByName(handover.connection).fetch("https://connection/", {
    headers: { Upgrade: "websocket", "X-Acp-Handover": JSON.stringify(handover) },
  });
});
