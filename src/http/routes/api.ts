import { Hono } from "hono";
import type { AppEnv } from "../app-env.ts";
import { requireScope } from "../middleware/authentication.ts";
import { permissionRoutes } from "./permissions.ts";
import { questionRoutes } from "./questions.ts";
import { eventRoutes } from "./sessions/events.ts";
import { sessionRoutes } from "./sessions/sessions.ts";
import { shareRoutes } from "./sessions/shares.ts";
import { transferRoutes } from "./sessions/transfer.ts";
import { auditRoutes } from "./tenant/audit.ts";
import { reindexRoutes } from "./tenant/reindex.ts";
import { revocationRoutes } from "./tenant/revocations.ts";
import { securityRoutes } from "./tenant/security.ts";
import { usageRoutes } from "./usage.ts";
import { agentRoutes } from "./workspaces/agents.ts";
import { secretRoutes } from "./workspaces/secrets.ts";
import { webhookRoutes } from "./workspaces/webhooks.ts";
import { workspaceRoutes } from "./workspaces/workspaces.ts";

/**
 * The REST API. The routes of administrators name their scopes, and show nothing of a conversation. Every other route
 * needs `session:read`; a route that needs more says so itself.
 */
export const apiRoutes = new Hono<AppEnv>();

apiRoutes.route("/", revocationRoutes);
apiRoutes.route("/", auditRoutes);
apiRoutes.route("/", reindexRoutes);
apiRoutes.route("/", securityRoutes);

apiRoutes.use(requireScope("session:read"));

apiRoutes.route("/", transferRoutes);
apiRoutes.route("/", sessionRoutes);
apiRoutes.route("/", eventRoutes);
apiRoutes.route("/", shareRoutes);
apiRoutes.route("/", permissionRoutes);
apiRoutes.route("/", questionRoutes);
apiRoutes.route("/", usageRoutes);

apiRoutes.route("/", workspaceRoutes);
apiRoutes.route("/", agentRoutes);
apiRoutes.route("/", secretRoutes);
apiRoutes.route("/", webhookRoutes);
