import { Hono } from "hono";
import { AUDIT_QUERY, type AuditPage } from "../../../protocol/rest.ts";
import type { AppEnv } from "../../app-env.ts";
import { parseQuery } from "../../input.ts";
import { requireScope } from "../../middleware/authentication.ts";
import { tenantOf } from "../../targets.ts";

/** The audit log of a tenant: uses of rights that not every user has. */
export const auditRoutes = new Hono<AppEnv>();

auditRoutes.get("/audit", requireScope("workspace:admin"), async (c) =>
  c.json<AuditPage>(await tenantOf(c).auditPage(c.get("caller"), parseQuery(c, AUDIT_QUERY))),
);
