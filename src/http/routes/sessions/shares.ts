import { Hono } from "hono";
import { hashOf, makeShareToken } from "../../../auth/share-token.ts";
import { type CreatedShare, type ShareList, shareRequest } from "../../../protocol/rest.ts";
import type { AppEnv } from "../../app-env.ts";
import { parseBody } from "../../input.ts";
import { requireScope } from "../../middleware/authentication.ts";
import { RefusalException, unwrap } from "../../refusal-response.ts";
import { askSession, askTenant, tenantOf } from "../../targets.ts";

/** Links whose bearer may read one session until they expire. */
export const shareRoutes = new Hono<AppEnv>();

shareRoutes.get("/shares", requireScope("share"), async (c) =>
  c.json<ShareList>({ shares: await askTenant(c, (tenant) => tenant.listShares(c.get("caller"))) }),
);

shareRoutes.post("/shares", requireScope("share"), async (c) => {
  const { session, expiresIn, redact } = await parseBody(c, shareRequest(c.get("limits")));
  const caller = c.get("caller");
  const origin = unwrap(await askSession(c, session, (object) => object.origin(caller)));
  const expires = Date.now() + expiresIn * 1000;
  const token = await makeShareToken(c.env, caller.tenant, expires);
  if (token === undefined) throw noLinks();
  const order = { session, workspace: origin.workspace, expires, redact };
  const share = unwrap(await tenantOf(c).createShare(caller, order, await hashOf(token)));
  const url = `${new URL(c.req.url).origin}/api/sessions/${session}?token=${token}`;
  return c.json<CreatedShare>({ ...share, token, url }, 201);
});

shareRoutes.delete("/shares/:id", requireScope("share"), async (c) => {
  unwrap(await tenantOf(c).removeShare(c.get("caller"), c.req.param("id")));
  return c.body(null, 204);
});

function noLinks(): RefusalException {
  const message = "This gateway makes no links to sessions: SECRETS_KEY is not set";
  return new RefusalException({ reason: "not-configured", message });
}
