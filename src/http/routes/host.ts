import { type Context, Hono } from "hono";
import { workspaceObject } from "../../durable/object-names.ts";
import { mayUseWorkspace, ownWorkspace } from "../../protocol/caller.ts";
import { HOST } from "../../protocol/internal-headers.ts";
import type { AppEnv } from "../app-env.ts";
import { requireScope } from "../middleware/authentication.ts";
import { requireUpgrade, withSubprotocol } from "../middleware/upgrade.ts";
import { requestSocket } from "../object-socket.ts";
import { unwrap } from "../refusal-response.ts";
import { sessionOf, unknownWorkspace } from "../targets.ts";

/** Where agent hosts connect: with one control socket, and one socket for each session they run. */
export const hostRoutes = new Hono<AppEnv>();

hostRoutes.use(requireScope("host"), requireUpgrade);

hostRoutes.get("/control", async (c) => {
  const object = workspaceObject(c.env, c.get("caller").tenant, hostWorkspace(c));
  return withSubprotocol(c.req.raw, unwrap(await requestSocket(object, asHost(c))));
});

hostRoutes.get("/sessions/:id", async (c) => {
  hostWorkspace(c);
  const session = sessionOf(c, c.req.param("id"));
  return withSubprotocol(c.req.raw, unwrap(await requestSocket(session, asHost(c))));
});

/** The workspace of the host's token. The request may name it, but no other. */
function hostWorkspace(c: Context<AppEnv>): string {
  const caller = c.get("caller");
  const workspace = c.req.query("workspace") ?? ownWorkspace(caller);
  if (workspace === undefined || !mayUseWorkspace(caller, workspace)) throw unknownWorkspace();
  return workspace;
}

function asHost(c: Context<AppEnv>): Record<string, string> {
  return HOST.write(c.get("caller"));
}
