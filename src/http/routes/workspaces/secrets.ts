import { Hono } from "hono";
import { SECRET_NAME, SECRET_REQUEST, type SecretList } from "../../../protocol/rest.ts";
import { audit } from "../../../tenant/client/audit.ts";
import type { AppEnv } from "../../app-env.ts";
import { parse, parseBody } from "../../input.ts";
import { requireScope } from "../../middleware/authentication.ts";
import { unwrap } from "../../refusal-response.ts";
import { askWorkspace } from "../../targets.ts";

/** The secrets of a workspace. Admins set and remove them; only the workspace's hosts get to read them. */
export const secretRoutes = new Hono<AppEnv>();

const PATH = "/workspaces/:id/secrets";

secretRoutes.use(`${PATH}/*`, requireScope("workspace:admin"));

secretRoutes.get(PATH, async (c) =>
  c.json<SecretList>({
    secrets: await askWorkspace(c, c.req.param("id"), (workspace) => workspace.secrets(c.get("caller"))),
  }),
);

secretRoutes.put(`${PATH}/:name`, async (c) => {
  const name = parse(SECRET_NAME, c.req.param("name"));
  const { value } = await parseBody(c, SECRET_REQUEST);
  const id = c.req.param("id");
  const caller = c.get("caller");
  unwrap(await askWorkspace(c, id, (workspace) => workspace.putSecret(caller, id, { name, value })));
  const { tenant, subject } = caller;
  await audit(c.env, tenant, { kind: "secret.set", subject, workspace: id, detail: { name } });
  return c.body(null, 204);
});

secretRoutes.delete(`${PATH}/:name`, async (c) => {
  const { id, name } = c.req.param();
  const caller = c.get("caller");
  const removed = await askWorkspace(c, id, (workspace) => workspace.deleteSecret(caller, name));
  const { tenant, subject } = caller;
  // The caller wants the secret to be gone, so a secret that never existed is no failure.
  if (removed.ok)
    await audit(c.env, tenant, { kind: "secret.deleted", subject, workspace: id, detail: { name } });
  return c.body(null, 204);
});
