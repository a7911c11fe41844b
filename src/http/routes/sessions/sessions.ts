import { Hono } from "hono";
import { listSessions } from "../../../index/session-index.ts";
import { PAGE_QUERY, type SessionList } from "../../../protocol/rest.ts";
import type { AppEnv } from "../../app-env.ts";
import { parseQuery } from "../../input.ts";
import { requireScope } from "../../middleware/authentication.ts";
import { unwrap } from "../../refusal-response.ts";
import { askSession, sessionOf } from "../../targets.ts";

export const sessionRoutes = new Hono<AppEnv>();

sessionRoutes.get("/sessions", async (c) => {
  const { limit, cursor } = parseQuery(c, PAGE_QUERY);
  return c.json<SessionList>(await listSessions(c.env.INDEX, c.get("caller"), limit, { cursor }));
});

sessionRoutes.get("/sessions/:id", async (c) => {
  const view = unwrap(await askSession(c, c.req.param("id"), (session) => session.view(c.get("caller"))));
  return c.body(view, 200, { "Content-Type": "application/json" });
});

sessionRoutes.delete("/sessions/:id/queue/:turn", requireScope("session:prompt"), async (c) => {
  const { id, turn } = c.req.param();
  unwrap(await sessionOf(c, id).unqueue(c.get("caller"), turn));
  return c.body(null, 204);
});
