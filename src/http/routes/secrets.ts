import { Hono } from "hono";
import { HTTPException } from "hono/http-exception";
import { z } from "zod";
import { audit } from "../../tenant/client/audit.ts";
import type { AppEnv } from "../app-env.ts";
import { requireScope } from "../middleware/authentication.ts";
import { parse } from "../params.ts";
import { workspaceOf } from "./workspaces.ts";

/** Secrets of a workspace: they can be set and removed, and read by nobody but its hosts. */
export const secrets = new Hono<AppEnv>();

const PATH = "/workspaces/:id/secrets";

secrets.use(`${PATH}/*`, requireScope("workspace:admin"));

secrets.get(PATH, async (c) =>
  c.json({ secrets: await workspaceOf(c, c.req.param("id")).secrets(c.get("caller")) }),
);

secrets.put(`${PATH}/:name`, async (c) => {
  const name = parse(NAME, c.req.param("name"));
  const { value } = parse(BODY, await c.req.json().catch(() => null));
  const id = c.req.param("id");
  const caller = c.get("caller");
  const result = await workspaceOf(c, id).putSecret(caller, id, { name, value });
  if (result === "no key")
    throw new HTTPException(501, { message: "This gateway keeps no secrets: SECRETS_KEY is not set" });
  if (result === "too many") throw new HTTPException(409, { message: "The workspace has too many secrets" });
  const { tenant, subject } = caller;
  await audit(c.env, tenant, { kind: "secret.set", subject, workspace: id, detail: { name } });
  return c.body(null, 204);
});

secrets.delete(`${PATH}/:name`, async (c) => {
  const { id, name } = c.req.param();
  const caller = c.get("caller");
  const removed = await workspaceOf(c, id).deleteSecret(caller, name);
  const { tenant, subject } = caller;
  if (removed)
    await audit(c.env, tenant, { kind: "secret.deleted", subject, workspace: id, detail: { name } });
  return c.body(null, 204);
});

const NAME = z
  .string()
  .max(128)
  .regex(/^(?!ACP_EDGE_)[A-Za-z_][A-Za-z0-9_]*$/, "The name must be one of an environment variable");
const BODY = z.strictObject({
  value: z
    .string()
    .min(1)
    .max(32 * 1024)
    // No process can be given one.
    .refine((value) => !value.includes("\0"), "The value must not contain NUL"),
});
