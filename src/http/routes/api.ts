import { Hono } from "hono";
import type { AppEnv } from "../app-env.ts";
import { requireScope } from "../middleware/authentication.ts";
import { permissionRoutes } from "./permissions.ts";
import { eventRoutes } from "./sessions/events.ts";
import { sessionRoutes } from "./sessions/sessions.ts";
import { shareRoutes } from "./sessions/shares.ts";
import { transferRoutes } from "./sessions/transfer.ts";
import { auditRoutes } from "./tenant/audit.ts";
import { revocationRoutes } from "./tenant/revocations.ts";
import { agentRoutes } from "./workspaces/agents.ts";
import { secretRoutes } from "./workspaces/secrets.ts";
import { webhookRoutes } from "./workspaces/webhooks.ts";
import { workspaceRoutes } from "./workspaces/workspaces.ts";

/** The REST API. Every route needs `session:read`; a route that needs more says so itself. */
export const api = new Hono<AppEnv>();

api.use(requireScope("session:read"));

api.route("/", transferRoutes);
api.route("/", sessionRoutes);
api.route("/", eventRoutes);
api.route("/", shareRoutes);
api.route("/", permissionRoutes);

api.route("/", workspaceRoutes);
api.route("/", agentRoutes);
api.route("/", secretRoutes);
api.route("/", webhookRoutes);

api.route("/", revocationRoutes);
api.route("/", auditRoutes);
