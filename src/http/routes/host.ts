import { type Context, Hono } from "hono";
import { HTTPException } from "hono/http-exception";
import { workspaceObject } from "../../durable/object-names.ts";
import { mayUseWorkspace, ownWorkspace } from "../../protocol/caller.ts";
import { HOST } from "../../protocol/internal-headers.ts";
import type { AppEnv } from "../app-env.ts";
import { requireScope } from "../middleware/authentication.ts";
import { requireUpgrade, withSubprotocol } from "../middleware/upgrade.ts";
import { sessionOf, unknownSession } from "../params.ts";

/** Where agent hosts dial in: one control socket, and one socket for each session they run. */
export const host = new Hono<AppEnv>();

host.use(requireScope("host"), requireUpgrade);

host.get("/control", async (c) => {
  const workspace = workspaceOf(c);
  const caller = c.get("caller");
  const object = workspaceObject(c.env, caller.tenant, workspace);
  return withSubprotocol(c.req.raw, await object.fetch("https://workspace/", asHost(c)));
});

host.get("/sessions/:id", async (c) => {
  workspaceOf(c);
  const session = sessionOf(c, c.req.param("id"));
  const response = await session.fetch("https://session/", asHost(c));
  if (!response.webSocket) throw unknownSession(c.req.param("id"));
  return withSubprotocol(c.req.raw, response);
});

/** The workspace of the host's token; it may name it as well. */
function workspaceOf(c: Context<AppEnv>): string {
  const caller = c.get("caller");
  const workspace = c.req.query("workspace") ?? ownWorkspace(caller);
  if (workspace === undefined || !mayUseWorkspace(caller, workspace))
    throw new HTTPException(404, { message: "Unknown workspace" });
  return workspace;
}

function asHost(c: Context<AppEnv>): RequestInit {
  return { headers: { Upgrade: "websocket", ...HOST.write(c.get("caller")) } };
}
