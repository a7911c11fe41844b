import { Hono } from "hono";
import type { AgentList } from "../../../protocol/rest.ts";
import type { AppEnv } from "../../app-env.ts";
import { askWorkspace, requestedWorkspace } from "../../targets.ts";

/** The agents of a workspace, with the reason for each one that is not available. */
export const agentRoutes = new Hono<AppEnv>();

agentRoutes.get("/agents", async (c) => {
  const id = requestedWorkspace(c);
  const { agents } = await askWorkspace(c, id, (workspace) => workspace.view(c.get("caller"), id));
  return c.json<AgentList>({ agents });
});
