import { Hono } from "hono";
import type { AppEnv } from "./app-env.ts";
import { provideLimits } from "./middleware/limits.ts";
import { limitAddress } from "./middleware/rate-limits.ts";
import { limitBody } from "./middleware/request-body.ts";
import { limitLength } from "./middleware/request-length.ts";
import { setResponseHeaders } from "./middleware/response-headers.ts";
import { refuseForeignSockets } from "./middleware/socket-origin.ts";
import { errorResponse } from "./refusal-response.ts";
import { acp } from "./routes/acp/acp.ts";
import { agentWs } from "./routes/acp/agent-ws.ts";
import { answer } from "./routes/answer-link/answer-link.ts";
import { api } from "./routes/api.ts";
import { host } from "./routes/host.ts";
import { login } from "./routes/login.ts";

export const app = new Hono<AppEnv>();

/** These checks hold for every request, before its caller is known. */
app.use(setResponseHeaders, provideLimits, limitLength, refuseForeignSockets, limitAddress, limitBody);

app.get("/healthz", (c) => c.json({ ok: true }));
app.get("/", (c) => c.text("acp-edge: connect an ACP client to /acp, read sessions at /api/sessions\n"));
app.route("/acp", acp);
app.route("/agent/ws", agentWs);
app.route("/host", host);
app.route("/answer", answer);
app.route("/api", login);
app.route("/api", api);

app.notFound((c) => c.json({ error: { code: "not_found", message: "Not found" } }, 404));
app.onError((error, c) => errorResponse(c, error));
