import { env } from "cloudflare:workers";
import { app } from "./http/app.ts";
import { overrideLimits } from "./protocol/limits.ts";

overrideLimits(env.LIMITS);

export { AcpConnection } from "./connection/connection.ts";
export { AcpSession } from "./session/session.ts";
export { TenantState } from "./tenant/tenant.ts";
export { WorkspaceState } from "./workspace/workspace.ts";

export default app;
