import { type Context, Hono } from "hono";
import { createMiddleware } from "hono/factory";
import { HTTPException } from "hono/http-exception";
import { z } from "zod";
import { workspaceObject } from "../../durable/object-names.ts";
import { listWorkspaces } from "../../index/workspace-index.ts";
import { mayUseWorkspace, ownWorkspace } from "../../protocol/caller.ts";
import { WATCH_WORKSPACE } from "../../protocol/internal-headers.ts";
import { type Act, audit } from "../../tenant/client/audit.ts";
import { cannotStart } from "../../workspace/container/starter.ts";
import { SETTINGS_CHANGE, type SettingsChange } from "../../workspace/settings.ts";
import type { WorkspaceState } from "../../workspace/workspace-state.ts";
import type { AppEnv } from "../app-env.ts";
import { requireScope } from "../middleware/authentication.ts";
import { parse } from "../params.ts";
import { objectStream } from "../streams/object-stream.ts";

/** Workspaces: which there are, how they are, and what people decide about them. */
export const workspaces = new Hono<AppEnv>();

workspaces.get("/workspaces", async (c) => {
  const { limit, cursor } = parse(LIST_QUERY, c.req.query());
  return c.json(await listWorkspaces(c.env.INDEX, c.get("caller"), limit, cursor));
});

/** The view now and whenever it has changed, for who accepts an event stream. */
const liveView = createMiddleware<AppEnv>(async (c, next) => {
  if (!c.req.header("Accept")?.includes("text/event-stream")) return next();
  const id = c.req.param("id") ?? "";
  const watch = WATCH_WORKSPACE.write({ caller: c.get("caller"), id });
  const response = await objectStream(c, workspaceOf(c, id), watch);
  if (response.ok) return response;
  const message = `A workspace has at most ${c.get("limits").watchersPerWorkspace} live readers`;
  throw new HTTPException(429, { message });
});

workspaces.get("/workspaces/:id", liveView, async (c) => {
  const id = c.req.param("id");
  return c.json(await workspaceOf(c, id).view(c.get("caller"), id));
});

workspaces.put("/workspaces/:id", requireScope("workspace:admin"), async (c) => {
  const id = c.req.param("id");
  const workspace = workspaceOf(c, id);
  const change = parse(SETTINGS_CHANGE, await c.req.json().catch(() => null));
  const obstacle = change.container ? cannotStart(c.env) : undefined;
  if (obstacle !== undefined) throw new HTTPException(400, { message: obstacle });
  const caller = c.get("caller");
  const view = await workspace.update(caller, id, change);
  const { tenant, subject } = caller;
  await audit(c.env, tenant, { kind: "workspace.changed", subject, workspace: id, detail: inWords(change) });
  return c.json(view);
});

/** The workspace a request names, or its token is for. */
export function chosenWorkspace(c: Context<AppEnv>): string {
  const workspace = c.req.query("workspace") ?? ownWorkspace(c.get("caller"));
  if (workspace === undefined) throw new HTTPException(400, { message: "Say which workspace: ?workspace=" });
  return workspace;
}

export function workspaceOf(c: Context<AppEnv>, id: string): DurableObjectStub<WorkspaceState> {
  const caller = c.get("caller");
  // Who came by a link knows of one session and nothing around it.
  if (!mayUseWorkspace(caller, id) || caller.session !== undefined)
    throw new HTTPException(404, { message: "Unknown workspace" });
  return workspaceObject(c.env, caller.tenant, id);
}

function inWords(change: SettingsChange): NonNullable<Act["detail"]> {
  return Object.fromEntries(
    Object.entries(change).map(([name, value]) => [
      name,
      typeof value === "object" ? JSON.stringify(value) : value,
    ]),
  );
}

const LIST_QUERY = z.object({
  limit: z.coerce.number().int().min(1).max(200).default(50),
  cursor: z.string().max(500).optional(),
});
