import { Hono } from "hono";
import {
  type CreatedWebhook,
  type WebhookInfo,
  type WebhookList,
  webhookRequest,
} from "../../../protocol/rest.ts";
import { readWebhookTargets } from "../../../protocol/webhook-targets.ts";
import { audit } from "../../../tenant/client/audit.ts";
import type { AppEnv } from "../../app-env.ts";
import { parseBody } from "../../input.ts";
import { requireScope } from "../../middleware/authentication.ts";
import { unwrap } from "../../refusal-response.ts";
import { askWorkspace, workspaceOf } from "../../targets.ts";

/** The webhooks of a workspace: receivers of messages about its sessions. */
export const webhookRoutes = new Hono<AppEnv>();

const PATH = "/workspaces/:id/webhooks";

webhookRoutes.use(`${PATH}/*`, requireScope("workspace:admin"));

webhookRoutes.get(PATH, async (c) =>
  c.json<WebhookList>({
    webhooks: await askWorkspace(c, c.req.param("id"), (workspace) => workspace.webhooks(c.get("caller"))),
  }),
);

webhookRoutes.post(PATH, async (c) => {
  const id = c.req.param("id");
  const workspace = workspaceOf(c, id);
  const order = await parseBody(
    c,
    webhookRequest(c.get("limits"), readWebhookTargets(c.env.WEBHOOK_TARGETS)),
  );
  const caller = c.get("caller");
  const { origin } = new URL(c.req.url);
  const made = unwrap(await workspace.createWebhook(caller, id, { ...order, origin }));
  const { tenant, subject } = caller;
  // The path of the address may be the receiver's secret, so only the origin is logged.
  const detail = { webhook: made.id, to: new URL(made.url).origin, events: made.events.join() };
  await audit(c.env, tenant, { kind: "webhook.made", subject, workspace: id, detail });
  return c.json<CreatedWebhook>(made, 201);
});

webhookRoutes.delete(`${PATH}/:webhook`, async (c) => {
  const { id, webhook } = c.req.param();
  const caller = c.get("caller");
  unwrap(await workspaceOf(c, id).deleteWebhook(caller, webhook));
  const { tenant, subject } = caller;
  await audit(c.env, tenant, { kind: "webhook.deleted", subject, workspace: id, detail: { webhook } });
  return c.body(null, 204);
});

webhookRoutes.post(`${PATH}/:webhook/adopt`, async (c) => {
  const { id, webhook } = c.req.param();
  const caller = c.get("caller");
  const adopted = unwrap(await askWorkspace(c, id, (workspace) => workspace.adoptWebhook(caller, webhook)));
  const { tenant, subject } = caller;
  await audit(c.env, tenant, { kind: "webhook.adopted", subject, workspace: id, detail: { webhook } });
  return c.json<WebhookInfo>(adopted);
});

webhookRoutes.post(`${PATH}/:webhook/test`, async (c) => {
  const { id, webhook } = c.req.param();
  unwrap(await workspaceOf(c, id).testWebhook(c.get("caller"), webhook));
  return c.body(null, 202);
});
