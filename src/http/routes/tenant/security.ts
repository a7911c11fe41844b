import { Hono } from "hono";
import type { SecurityReport } from "../../../protocol/security-report.ts";
import type { AppEnv } from "../../app-env.ts";
import { requireScope } from "../../middleware/authentication.ts";
import { securityFindings } from "../../security-findings.ts";

/** How the deployment stands, for its administrators. */
export const securityRoutes = new Hono<AppEnv>();

securityRoutes.get("/security", requireScope("workspace:admin", "tenant:admin"), (c) =>
  c.json<SecurityReport>({ findings: securityFindings(c.env, c.req.url) }),
);
