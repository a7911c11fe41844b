import { Hono } from "hono";
import type { z } from "zod";
import { isUuid } from "../../../protocol/ids.ts";
import { unknownSession } from "../../../protocol/refusal.ts";
import { REVOCATION_REQUEST, type Revocation, type RevocationList } from "../../../protocol/rest.ts";
import type { RevocationOrder } from "../../../protocol/rpc.ts";
import { clearRevocationCache } from "../../../tenant/client/revocation-cache.ts";
import type { AppEnv } from "../../app-env.ts";
import { parseBody } from "../../input.ts";
import { requireScope } from "../../middleware/authentication.ts";
import { RefusalException, unwrap } from "../../refusal-response.ts";
import { tenantOf } from "../../targets.ts";

/** Revocations of tokens, of all tokens of a subject, and of everybody's access to a session. */
export const revocationRoutes = new Hono<AppEnv>();

revocationRoutes.get("/revocations", requireScope("workspace:admin"), async (c) =>
  c.json<RevocationList>({ revocations: await tenantOf(c).listRevocations(c.get("caller")) }),
);

revocationRoutes.post("/revocations", requireScope("workspace:admin"), async (c) => {
  const order = revocationIn(await parseBody(c, REVOCATION_REQUEST));
  if (order.kind === "session" && !isUuid(order.value))
    throw new RefusalException(unknownSession(order.value));
  const result = await tenantOf(c).revoke(c.get("caller"), order);
  clearRevocationCache();
  return c.json<Revocation>(unwrap(result), 201);
});

revocationRoutes.delete("/revocations/:id", requireScope("workspace:admin"), async (c) => {
  unwrap(await tenantOf(c).liftRevocation(c.get("caller"), c.req.param("id")));
  clearRevocationCache();
  return c.body(null, 204);
});

function revocationIn({ until, ...target }: z.infer<typeof REVOCATION_REQUEST>): RevocationOrder {
  const [[kind, value]] = Object.entries(target) as [[RevocationOrder["kind"], string]];
  return { kind, value, until: until === undefined ? null : Date.parse(until) };
}
