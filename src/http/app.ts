import { Hono } from "hono";
import type { AppEnv } from "./middleware/auth.ts";
import {
  headers,
  limitAddress,
  limitJson,
  limitLength,
  limitPace,
  refuseForeignSockets,
} from "./middleware/edges.ts";
import { errorResponse } from "./refusal-response.ts";
import { acp } from "./routes/acp/acp.ts";
import { agentWs } from "./routes/acp/agent-ws.ts";
import { answer } from "./routes/answer-link/answer-link.ts";
import { api } from "./routes/api.ts";
import { host } from "./routes/host.ts";
import { login } from "./routes/login.ts";

export const app = new Hono<AppEnv>();

app.use(headers, limitLength, refuseForeignSockets, limitAddress, limitPace);
app.use("/api/*", limitJson);

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
