import { Hono } from "hono";
import { HTTPException } from "hono/http-exception";
import { z } from "zod";
import { LIMITS } from "../../protocol/limits.ts";
import { isPrivateLine } from "../../protocol/secure-url.ts";
import { NOTICE_TYPES } from "../../protocol/webhook-messages.ts";
import { audit } from "../../tenant/client/audit.ts";
import type { AppEnv } from "../app-env.ts";
import { requireScope } from "../middleware/authentication.ts";
import { parse } from "../params.ts";
import { workspaceOf } from "./workspaces.ts";

/** Who else is told of what happens in a workspace. */
export const webhooks = new Hono<AppEnv>();

const PATH = "/workspaces/:id/webhooks";

webhooks.use(`${PATH}/*`, requireScope("workspace:admin"));

webhooks.get(PATH, async (c) =>
  c.json({ webhooks: await workspaceOf(c, c.req.param("id")).webhooks(c.get("caller")) }),
);

webhooks.post(PATH, async (c) => {
  const id = c.req.param("id");
  const workspace = workspaceOf(c, id);
  const order = parse(ORDER, await c.req.json().catch(() => null));
  const caller = c.get("caller");
  const made = await workspace.makeWebhook(caller, id, { ...order, origin: new URL(c.req.url).origin });
  if (made === "no key")
    throw new HTTPException(501, { message: "This gateway keeps no secrets: SECRETS_KEY is not set" });
  if (made === "too many") throw new HTTPException(409, { message: "The workspace has too many webhooks" });
  const { tenant, subject } = caller;
  // Some receivers have their secret in the path.
  const detail = { webhook: made.id, to: new URL(made.url).origin, events: made.events.join() };
  await audit(c.env, tenant, { kind: "webhook.made", subject, workspace: id, detail });
  return c.json(made, 201);
});

webhooks.delete(`${PATH}/:webhook`, async (c) => {
  const { id, webhook } = c.req.param();
  const caller = c.get("caller");
  if (!(await workspaceOf(c, id).deleteWebhook(caller, webhook))) throw unknownWebhook();
  const { tenant, subject } = caller;
  await audit(c.env, tenant, { kind: "webhook.deleted", subject, workspace: id, detail: { webhook } });
  return c.body(null, 204);
});

webhooks.post(`${PATH}/:webhook/test`, async (c) => {
  const { id, webhook } = c.req.param();
  if (!(await workspaceOf(c, id).testWebhook(c.get("caller"), webhook))) throw unknownWebhook();
  return c.body(null, 202);
});

function unknownWebhook(): HTTPException {
  return new HTTPException(404, { message: "Unknown webhook" });
}

const ORDER = z.strictObject({
  url: z
    .url({ protocol: /^https?$/, abort: true })
    .max(LIMITS.webhookUrlChars)
    .refine(isPrivateLine, "Messages are sent over https")
    .refine((url) => !hasCredentials(url), "There must be no user or password in the address"),
  events: z
    .array(z.enum(NOTICE_TYPES))
    .min(1)
    .default([...NOTICE_TYPES])
    .transform((types) => NOTICE_TYPES.filter((type) => types.includes(type))),
  links: z.boolean().default(false),
});

function hasCredentials(url: string): boolean {
  const { username, password } = new URL(url);
  return username !== "" || password !== "";
}
