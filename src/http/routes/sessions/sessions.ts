import { Hono } from "hono";
import { listSessions } from "../../../index/session-index.ts";
import { SESSION_QUERY, type SessionList } from "../../../protocol/rest.ts";
import { type ChangedSession, SESSION_CHANGE } from "../../../protocol/session-change.ts";
import type { AppEnv } from "../../app-env.ts";
import { parseBody, parseQuery } from "../../input.ts";
import { requireScope } from "../../middleware/authentication.ts";
import { unwrap } from "../../refusal-response.ts";
import { askSession, sessionOf } from "../../targets.ts";
import { MESSAGE_QUERY, messagePage } from "./message-page.ts";

export const sessionRoutes = new Hono<AppEnv>();

sessionRoutes.get("/sessions", async (c) => {
  const { limit, ...filter } = parseQuery(c, SESSION_QUERY);
  return c.json<SessionList>(await listSessions(c.env.INDEX, c.get("caller"), limit, filter));
});

sessionRoutes.get("/sessions/:id", async (c) => {
  const id = c.req.param("id");
  const { history } = parseQuery(c, MESSAGE_QUERY);
  const view = unwrap(await askSession(c, id, (session) => session.view(c.get("caller"))));
  const messages = await messagePage((call) => askSession(c, id, call), c.get("caller"), view, history);
  return c.body(`${view.slice(0, -1)},${JSON.stringify(messages).slice(1)}`, 200, {
    "Content-Type": "application/json",
  });
});

sessionRoutes.patch("/sessions/:id", requireScope("session:prompt"), async (c) => {
  const change = await parseBody(c, SESSION_CHANGE);
  const session = sessionOf(c, c.req.param("id"));
  return c.json<ChangedSession>(unwrap(await session.change(c.get("caller"), change, "api")));
});

sessionRoutes.delete("/sessions/:id/queue/:turn", requireScope("session:prompt"), async (c) => {
  const { id, turn } = c.req.param();
  unwrap(await sessionOf(c, id).unqueue(c.get("caller"), turn));
  return c.body(null, 204);
});
