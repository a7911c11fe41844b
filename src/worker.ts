import { app } from "./http/app.ts";

export { AcpConnection } from "./connection/acp-connection.ts";
export { AcpSession } from "./session/acp-session.ts";
export { TenantState } from "./tenant/tenant-state.ts";
export { WorkspaceState } from "./workspace/workspace-state.ts";

export default app;
