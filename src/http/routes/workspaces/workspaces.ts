import { Hono } from "hono";
import { createMiddleware } from "hono/factory";
import { listWorkspaces } from "../../../index/workspace-index.ts";
import { WATCH_WORKSPACE } from "../../../protocol/internal-headers.ts";
import { PAGE_QUERY, type WorkspaceList, type WorkspaceView } from "../../../protocol/rest.ts";
import { SETTINGS_CHANGE } from "../../../protocol/workspace-settings.ts";
import { audit } from "../../../tenant/client/audit.ts";
import type { AppEnv } from "../../app-env.ts";
import { parseBody, parseQuery } from "../../input.ts";
import { requireScope } from "../../middleware/authentication.ts";
import { unwrap } from "../../refusal-response.ts";
import { acceptsEventStream, objectStream } from "../../streams/object-stream.ts";
import { askWorkspace, workspaceOf } from "../../targets.ts";

/** Workspaces: their list, their state, and their settings. */
export const workspaceRoutes = new Hono<AppEnv>();

workspaceRoutes.get("/workspaces", async (c) => {
  const { limit, cursor } = parseQuery(c, PAGE_QUERY);
  return c.json<WorkspaceList>(await listWorkspaces(c.env.INDEX, c.get("caller"), limit, cursor));
});

/** Streams the view, now and after each change, to a reader that accepts an event stream. */
const liveView = createMiddleware<AppEnv>(async (c, next) => {
  if (!acceptsEventStream(c)) return next();
  const id = c.req.param("id") ?? "";
  const socket = crypto.randomUUID();
  const watch = WATCH_WORKSPACE.write({ caller: c.get("caller"), id, socket });
  return unwrap(await objectStream(c, () => workspaceOf(c, id), watch));
});

workspaceRoutes.get("/workspaces/:id", liveView, async (c) => {
  const id = c.req.param("id");
  return c.json<WorkspaceView>(await askWorkspace(c, id, (workspace) => workspace.view(c.get("caller"), id)));
});

workspaceRoutes.put("/workspaces/:id", requireScope("workspace:admin"), async (c) => {
  const id = c.req.param("id");
  workspaceOf(c, id);
  const change = await parseBody(c, SETTINGS_CHANGE);
  const caller = c.get("caller");
  const view = unwrap(await askWorkspace(c, id, (workspace) => workspace.update(caller, id, change)));
  const { tenant, subject } = caller;
  // Names only: a value may be longer than an audit is worth, or say more than its readers may know.
  const detail = { settings: Object.keys(change).join() };
  await audit(c.env, tenant, { kind: "workspace.changed", subject, workspace: id, detail });
  return c.json<WorkspaceView>(view);
});
