import { type Context, Hono } from "hono";
import { CHAIN_RESPONSE_MS, callObject } from "../../../durable/object-call.ts";
import { type WorkspaceObject, workspaceObject } from "../../../durable/objects.ts";
import { isTenantAdmin, mayAdminister } from "../../../protocol/caller.ts";
import { REINDEX_QUERY, REINDEX_REQUEST, type ReindexProgress } from "../../../protocol/reindex.ts";
import { audit } from "../../../tenant/client/audit.ts";
import type { AppEnv } from "../../app-env.ts";
import { parseOptionalBody, parseQuery } from "../../input.ts";
import { requireScope } from "../../middleware/authentication.ts";
import { RefusalException } from "../../refusal-response.ts";
import { askTenant, unknownWorkspace } from "../../targets.ts";

/** Writes the index anew from the sessions: of a workspace for its administrator, of all for the tenant's. */
export const reindexRoutes = new Hono<AppEnv>();

const ADMINISTRATORS = requireScope("workspace:admin", "tenant:admin");

reindexRoutes.post("/admin/reindex", ADMINISTRATORS, async (c) => {
  const workspace = workspaceFor(c, (await parseOptionalBody(c, REINDEX_REQUEST)).workspace);
  const caller = c.get("caller");
  const progress =
    workspace === undefined
      ? await askTenant(c, (tenant) => tenant.startReindex(caller))
      : await ask(c, workspace, (object) => object.startReindex(caller, workspace));
  if (!progress) throw unknownWorkspace();
  await audit(c.env, caller.tenant, { kind: "index.rebuilt", subject: caller.subject, workspace });
  return c.json<ReindexProgress>(progress, 202);
});

reindexRoutes.get("/admin/reindex", ADMINISTRATORS, async (c) => {
  const workspace = workspaceFor(c, parseQuery(c, REINDEX_QUERY).workspace);
  const caller = c.get("caller");
  return c.json<ReindexProgress>(
    workspace === undefined
      ? await askTenant(c, (tenant) => tenant.reindexProgress(caller))
      : await ask(c, workspace, (object) => object.reindexProgress(caller)),
  );
});

/** The workspace that the request is about; undefined for the whole tenant. */
function workspaceFor(c: Context<AppEnv>, named: string | undefined): string | undefined {
  const caller = c.get("caller");
  if (named === undefined) {
    if (isTenantAdmin(caller)) return undefined;
    const message = "The index of the whole tenant needs the scope tenant:admin: name a workspace";
    throw new RefusalException({ reason: "forbidden", message });
  }
  if (!mayAdminister(caller, named)) throw unknownWorkspace();
  return named;
}

function ask<R>(
  c: Context<AppEnv>,
  workspace: string,
  call: (object: WorkspaceObject) => R,
): Promise<Awaited<R>> {
  return callObject(() => workspaceObject(c.env, c.get("caller").tenant, workspace), call, {
    timeoutMs: CHAIN_RESPONSE_MS,
  });
}
