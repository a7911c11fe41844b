import { Hono } from "hono";
import type { AppEnv } from "./app-env.ts";
import { provideLimits } from "./middleware/limits.ts";
import { limitAddress } from "./middleware/rate-limits.ts";
import { limitBody } from "./middleware/request-body.ts";
import { limitLength } from "./middleware/request-length.ts";
import { setResponseHeaders } from "./middleware/response-headers.ts";
import { refuseForeignSockets } from "./middleware/socket-origin.ts";
import { respondToError } from "./refusal-response.ts";
import { acpRoutes } from "./routes/acp/acp.ts";
import { agentWsRoutes } from "./routes/acp/agent-ws.ts";
import { answerLinkRoutes } from "./routes/answer-link/answer-link.ts";
import { apiRoutes } from "./routes/api.ts";
import { hostRoutes } from "./routes/host.ts";
import { loginRoutes } from "./routes/login.ts";
import { openidLoginRoutes } from "./routes/openid-login.ts";

export const app = new Hono<AppEnv>();

/** These checks hold for every request, before its caller is known. */
app.use(setResponseHeaders, provideLimits, limitLength, refuseForeignSockets, limitAddress, limitBody);

app.get("/healthz", (c) => c.json({ ok: true }));
app.get("/", (c) => c.text("acp-edge: connect an ACP client to /acp, read sessions at /api/sessions\n"));
app.route("/acp", acpRoutes);
app.route("/agent/ws", agentWsRoutes);
app.route("/host", hostRoutes);
app.route("/answer", answerLinkRoutes);
app.route("/", openidLoginRoutes);
app.route("/api", loginRoutes);
app.route("/api", apiRoutes);

app.notFound((c) => c.json({ error: { code: "not_found", message: "Not found" } }, 404));
app.onError((error, c) => respondToError(c, error));
