import { type Context, Hono } from "hono";
import { createMiddleware } from "hono/factory";
import { HTTPException } from "hono/http-exception";
import { z } from "zod";
import { cannotStart } from "../container/starter.ts";
import { mayUseWorkspace } from "../protocol/caller.ts";
import { LIMITS } from "../protocol/limits.ts";
import { SETTINGS_CHANGE } from "../workspace/settings.ts";
import type { WorkspaceState } from "../workspace/workspace.ts";
import { type AppEnv, requireScope } from "./auth.ts";
import { eventStream } from "./event-stream.ts";
import { parse } from "./params.ts";
import { listWorkspaces } from "./workspace-index.ts";

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
  const response = await workspaceOf(c, id).fetch("https://workspace/watch", {
    headers: { Upgrade: "websocket", "X-Acp-Watch": id },
  });
  if (!response.webSocket)
    throw new HTTPException(429, {
      message: `A workspace has at most ${LIMITS.watchersPerWorkspace} live readers`,
    });
  response.webSocket.accept();
  const body = eventStream(response.webSocket, {
    keepAliveMs: LIMITS.keepAliveMs,
    endsAt: c.get("caller").expires * 1000,
    signal: c.req.raw.signal,
  });
  return c.body(body, 200, {
    "Content-Type": "text/event-stream; charset=utf-8",
    "Cache-Control": "no-cache, no-transform",
  });
});

workspaces.get("/workspaces/:id", liveView, async (c) => {
  const id = c.req.param("id");
  return c.json(await workspaceOf(c, id).view(id));
});

workspaces.put("/workspaces/:id", requireScope("workspace:admin"), async (c) => {
  const id = c.req.param("id");
  const workspace = workspaceOf(c, id);
  const change = parse(SETTINGS_CHANGE, await c.req.json().catch(() => null));
  const obstacle = change.container ? cannotStart(c.env) : undefined;
  if (obstacle !== undefined) throw new HTTPException(400, { message: obstacle });
  return c.json(await workspace.update({ tenant: c.get("caller").tenant, workspace: id }, change));
});

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

const LIST_QUERY = z.object({
  limit: z.coerce.number().int().min(1).max(200).default(50),
  cursor: z.string().max(500).optional(),
});
