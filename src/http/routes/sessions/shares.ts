import { type Context, Hono } from "hono";
import { HTTPException } from "hono/http-exception";
import { z } from "zod";
import { hashOf, makeShareToken } from "../../../auth/share-token.ts";
import { LIMITS } from "../../../protocol/limits.ts";
import type { AppEnv } from "../../app-env.ts";
import { requireScope } from "../../middleware/authentication.ts";
import { parse, sessionOf } from "../../params.ts";
import { unwrap } from "../../refusal-response.ts";

/** Links by which anybody may read one session, for a while. */
export const shares = new Hono<AppEnv>();

shares.get("/shares", requireScope("share"), async (c) =>
  c.json({ shares: await tenantOf(c).shares(c.get("caller")) }),
);

shares.post("/shares", requireScope("share"), async (c) => {
  const { session, expiresIn, redact } = parse(ORDER, await c.req.json().catch(() => null));
  const caller = c.get("caller");
  const origin = unwrap(await sessionOf(c, session).origin(caller));
  const token = makeShareToken(caller.tenant);
  const order = { session, workspace: origin.workspace, expires: Date.now() + expiresIn * 1000, redact };
  const share = await tenantOf(c).share(caller, order, await hashOf(token));
  const url = `${new URL(c.req.url).origin}/api/sessions/${session}?token=${token}`;
  return c.json({ ...share, token, url }, 201);
});

shares.delete("/shares/:id", requireScope("share"), async (c) => {
  if (!(await tenantOf(c).unshare(c.get("caller"), c.req.param("id"))))
    throw new HTTPException(404, { message: "Unknown share" });
  return c.body(null, 204);
});

function tenantOf(c: Context<AppEnv>) {
  return c.env.TENANT_DO.getByName(c.get("caller").tenant);
}

const ORDER = z.strictObject({
  session: z.string(),
  /** Seconds. */
  expiresIn: z.number().int().min(1).max(LIMITS.shareSeconds).default(Math.min(86_400, LIMITS.shareSeconds)),
  /** Nothing of what tools were given, nor of what came out of them. */
  redact: z.boolean().default(false),
});
