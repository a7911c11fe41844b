import { Hono } from "hono";
import { AUDIT_QUERY, type AuditPage } from "../../../protocol/rest-tenant.ts";
import type { AppEnv } from "../../app-env.ts";
import { parseQuery } from "../../input.ts";
import { requireScope } from "../../middleware/authentication.ts";
import { askTenant } from "../../targets.ts";

/**
 * The audit log of a tenant: uses of rights that not every user has. An administrator of workspaces reads the entries of
 * these workspaces.
 */
export const auditRoutes = new Hono<AppEnv>();

auditRoutes.get("/audit", requireScope("workspace:admin", "tenant:admin"), async (c) =>
  c.json<AuditPage>(
    await askTenant(c, (tenant) => tenant.auditPage(c.get("caller"), parseQuery(c, AUDIT_QUERY))),
  ),
);
