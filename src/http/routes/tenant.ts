import { type Context, Hono } from "hono";
import { HTTPException } from "hono/http-exception";
import { z } from "zod";
import { isUuid } from "../../protocol/ids.ts";
import { forgetAnswers } from "../../tenant/client/revocation-cache.ts";
import type { RevocationOrder } from "../../tenant/tenant-state.ts";
import type { AppEnv } from "../app-env.ts";
import { requireScope } from "../middleware/authentication.ts";
import { parse, unknownSession } from "../params.ts";

/** What concerns all of a tenant: whose access is revoked, and who did what. */
export const tenant = new Hono<AppEnv>();

tenant.get("/revocations", requireScope("workspace:admin"), async (c) =>
  c.json({ revocations: await tenantOf(c).revocations(c.get("caller")) }),
);

tenant.post("/revocations", requireScope("workspace:admin"), async (c) => {
  const order = orderIn(parse(REVOCATION, await c.req.json().catch(() => null)));
  if (order.kind === "session" && !isUuid(order.value)) throw unknownSession(order.value);
  const made = await tenantOf(c).revoke(c.get("caller"), order);
  forgetAnswers();
  if (made === null) throw unknownSession(order.value);
  if ("refused" in made) throw new HTTPException(409, { message: made.refused });
  return c.json(made, 201);
});

tenant.delete("/revocations/:id", requireScope("workspace:admin"), async (c) => {
  if (!(await tenantOf(c).lift(c.get("caller"), c.req.param("id"))))
    throw new HTTPException(404, { message: "Unknown revocation" });
  forgetAnswers();
  return c.body(null, 204);
});

tenant.get("/audit", requireScope("workspace:admin"), async (c) =>
  c.json(await tenantOf(c).audit(c.get("caller"), parse(AUDIT, c.req.query()))),
);

function tenantOf(c: Context<AppEnv>) {
  return c.env.TENANT_DO.getByName(c.get("caller").tenant);
}

function orderIn({ until, ...target }: z.infer<typeof REVOCATION>): RevocationOrder {
  const [[kind, value]] = Object.entries(target) as [[RevocationOrder["kind"], string]];
  return { kind, value, until: until === undefined ? null : Date.parse(until) };
}

const VALUE = z.string().min(1).max(500);
const UNTIL = {
  until: z.iso
    .datetime({ offset: true })
    .refine((time) => Date.parse(time) > Date.now(), "that is in the past")
    .optional(),
};
const REVOCATION = z.union(
  [
    z.strictObject({ jti: VALUE, ...UNTIL }),
    z.strictObject({ subject: VALUE, ...UNTIL }),
    z.strictObject({ session: VALUE, ...UNTIL }),
  ],
  "Give one of jti, subject and session, and until when it shall last if that is known",
);
const AUDIT = z.object({
  after: z.coerce.number().int().min(0).default(0),
  limit: z.coerce.number().int().min(1).max(1000).default(100),
  kind: z.string().max(100).optional(),
});
