import { app } from "./http/app.ts";

export { AcpConnection } from "./connection/acp-connection.ts";
export { AcpSession } from "./session/acp-session.ts";
export { SubjectState } from "./tenant/subject/subject-state.ts";
export { TenantState } from "./tenant/tenant-state.ts";
export { WorkspaceState } from "./workspace/workspace-state.ts";

export default app;
