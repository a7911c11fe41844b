import { Hono } from "hono";
import { z } from "zod";
import { listSessions } from "../../index/session-index.ts";
import type { Result } from "../../protocol/refusal.ts";
import type { EventsPage } from "../../protocol/rpc.ts";
import type { AppEnv } from "../app-env.ts";
import { requireScope } from "../middleware/authentication.ts";
import { parse, sessionOf } from "../params.ts";
import { unwrap } from "../refusal-response.ts";
import { agents } from "./agents.ts";
import { permissions } from "./permissions.ts";
import { secrets } from "./secrets.ts";
import { liveEvents } from "./sessions/live-events.ts";
import { shares } from "./sessions/shares.ts";
import { transfer } from "./sessions/transfer.ts";
import { tenant } from "./tenant.ts";
import { webhooks } from "./webhooks.ts";
import { workspaces } from "./workspaces.ts";

/** What there is to see, over plain HTTP. */
export const api = new Hono<AppEnv>();

api.use(requireScope("session:read"));
api.route("/", transfer);
api.route("/", permissions);
api.route("/", workspaces);
api.route("/", agents);
api.route("/", secrets);
api.route("/", webhooks);
api.route("/", tenant);
api.route("/", shares);

api.get("/sessions", async (c) => {
  const { limit, cursor } = parse(LIST_QUERY, c.req.query());
  return c.json(await listSessions(c.env.INDEX, c.get("caller"), limit, { cursor }));
});

api.get("/sessions/:id", async (c) => {
  const session = unwrap(await sessionOf(c, c.req.param("id")).view(c.get("caller")));
  return c.body(session, 200, { "Content-Type": "application/json" });
});

api.delete("/sessions/:id/queue/:turn", requireScope("session:prompt"), async (c) => {
  unwrap(await sessionOf(c, c.req.param("id")).unqueue(c.get("caller"), c.req.param("turn")));
  return c.body(null, 204);
});

/** The log as NDJSON: a page of it with `limit`, without it all there is; live for who wants an event stream. */
api.get("/sessions/:id/events", liveEvents, async (c) => {
  const session = sessionOf(c, c.req.param("id"));
  const { after, limit } = parse(EVENTS_QUERY, c.req.query());
  const caller = c.get("caller");
  let page: Result<EventsPage> | null = await session.events(caller, after, limit);
  unwrap(page);
  let left = limit;
  const body = new ReadableStream<Uint8Array>({
    async pull(controller) {
      if (page?.ok === false && page.refusal.reason === "gone")
        return controller.error(new Error(page.refusal.message));
      if (!page?.ok || page.value.count === 0) return controller.close();
      const { text, count, last } = page.value;
      controller.enqueue(new TextEncoder().encode(text));
      left -= count;
      page = left > 0 ? await session.events(caller, last, left) : null;
    },
  });
  return c.body(body, 200, { "Content-Type": "application/x-ndjson; charset=utf-8" });
});

const LIST_QUERY = z.object({
  limit: z.coerce.number().int().min(1).max(200).default(50),
  cursor: z.string().max(500).optional(),
});
const EVENTS_QUERY = z.object({
  after: z.coerce.number().int().min(0).default(0),
  limit: z.coerce.number().int().min(1).default(Number.MAX_SAFE_INTEGER),
});
