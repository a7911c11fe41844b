import { Hono } from "hono";
import type { AppEnv } from "../app-env.ts";
import { chosenWorkspace, workspaceOf } from "./workspaces.ts";

/** The agents of a workspace: those that can be had, and what the others lack. */
export const agents = new Hono<AppEnv>();

agents.get("/agents", async (c) => {
  const id = chosenWorkspace(c);
  const { agents } = await workspaceOf(c, id).view(c.get("caller"), id);
  return c.json({ agents });
});
