import { type Context, Hono } from "hono";
import { workspaceObject } from "../../durable/objects.ts";
import { mayUseWorkspace, ownWorkspace } from "../../protocol/caller.ts";
import { HOST } from "../../protocol/internal-headers.ts";
import type { AppEnv } from "../app-env.ts";
import { openSocket, requireSocketScope } from "../middleware/authentication.ts";
import { requireUpgrade, withSubprotocol } from "../middleware/upgrade.ts";
import { unwrap } from "../refusal-response.ts";
import { sessionOf, unknownWorkspace } from "../targets.ts";

/** Where agent hosts connect: with one control socket, and one socket for each session they run. */
export const hostRoutes = new Hono<AppEnv>();

hostRoutes.use(requireSocketScope("host"), requireUpgrade);

hostRoutes.get("/control", async (c) => {
  const workspace = hostWorkspace(c);
  return openHostSocket(c, () => workspaceObject(c.env, c.get("caller").tenant, workspace));
});

hostRoutes.get("/sessions/:id", async (c) => {
  hostWorkspace(c);
  return openHostSocket(c, () => sessionOf(c, c.req.param("id")));
});

/** The workspace of the host's token. The request may name it, but no other. */
function hostWorkspace(c: Context<AppEnv>): string {
  const caller = c.get("caller");
  const workspace = c.req.query("workspace") ?? ownWorkspace(caller);
  if (workspace === undefined || !mayUseWorkspace(caller, workspace)) throw unknownWorkspace();
  return workspace;
}

async function openHostSocket(c: Context<AppEnv>, find: () => Pick<Fetcher, "fetch">): Promise<Response> {
  const response = await openSocket(c, find, HOST.write(c.get("caller")));
  return withSubprotocol(c.req.raw, unwrap(response));
}
