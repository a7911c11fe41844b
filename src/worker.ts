import "./configure.ts";
import { app } from "./http/app.ts";

export { AcpConnection } from "./connection/connection.ts";
export { AcpSession } from "./session/session.ts";
export { TenantState } from "./tenant/tenant.ts";
export { WorkspaceState } from "./workspace/workspace.ts";

export default app;
