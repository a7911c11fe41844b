import { Hono } from "hono";
import type { z } from "zod";
import { isUuid } from "../../../protocol/ids.ts";
import { unknownSession } from "../../../protocol/refusal.ts";
import {
  type CreatedRevocation,
  REVOCATION_REQUEST,
  type RevocationList,
} from "../../../protocol/rest-tenant.ts";
import type { RevocationOrder } from "../../../protocol/rpc.ts";
import { clearRevocationCache } from "../../../tenant/client/revocation-cache.ts";
import type { AppEnv } from "../../app-env.ts";
import { parseBody } from "../../input.ts";
import { requireScope } from "../../middleware/authentication.ts";
import { RefusalException, unwrap } from "../../refusal-response.ts";
import { askTenant, tenantOf } from "../../targets.ts";

/** Revocations of tokens, of all tokens of a subject, and of everybody's access to a session. */
export const revocationRoutes = new Hono<AppEnv>();

/** The tenant decides what an administrator of workspaces may see and do. */
const ADMINISTRATORS = requireScope("workspace:admin", "tenant:admin");

revocationRoutes.get("/revocations", ADMINISTRATORS, async (c) =>
  c.json<RevocationList>({
    revocations: await askTenant(c, (tenant) => tenant.listRevocations(c.get("caller"))),
  }),
);

revocationRoutes.post("/revocations", ADMINISTRATORS, async (c) => {
  const order = revocationIn(await parseBody(c, REVOCATION_REQUEST));
  if (order.kind === "session" && !isUuid(order.value))
    throw new RefusalException(unknownSession(order.value));
  const result = await tenantOf(c).revoke(c.get("caller"), order);
  clearRevocationCache();
  return c.json<CreatedRevocation>(unwrap(result), 201);
});

revocationRoutes.delete("/revocations/:id", ADMINISTRATORS, async (c) => {
  unwrap(await tenantOf(c).liftRevocation(c.get("caller"), c.req.param("id")));
  clearRevocationCache();
  return c.body(null, 204);
});

function revocationIn({ until, ...rest }: z.infer<typeof REVOCATION_REQUEST>): RevocationOrder {
  const end = until === undefined ? null : Date.parse(until);
  if ("session" in rest) return { kind: "session", value: rest.session, workspace: null, until: end };
  const workspace = rest.workspace ?? null;
  if ("jti" in rest) return { kind: "jti", value: rest.jti, workspace, until: end };
  return { kind: "subject", value: rest.subject, workspace, until: end };
}
