import { Hono } from "hono";
import { HTTPException } from "hono/http-exception";
import { z } from "zod";
import { mayUseWorkspace } from "../protocol/caller.ts";
import { isUuid } from "../protocol/ids.ts";
import type { AcpSession } from "../session/session.ts";
import { type AppEnv, requireScope } from "./auth.ts";
import { listSessions } from "./session-index.ts";

/** What there is to see, over plain HTTP. */
export const api = new Hono<AppEnv>();

api.use(requireScope("session:read"));

api.get("/sessions", async (c) => {
  const { limit, cursor } = parse(LIST_QUERY, c.req.query());
  return c.json(await listSessions(c.env.INDEX, c.get("caller"), limit, cursor));
});

api.get("/sessions/:id", async (c) => {
  const session = await sessionOf(c.env, c.req.param("id")).describe(c.get("caller"));
  if (!session) throw unknownSession();
  return c.body(session, 200, { "Content-Type": "application/json" });
});

/** The log as NDJSON: a page of it with `limit`, without it all there is. */
api.get("/sessions/:id/events", async (c) => {
  const session = sessionOf(c.env, c.req.param("id"));
  const { after, limit } = parse(EVENTS_QUERY, c.req.query());
  const caller = c.get("caller");
  const first = await session.events(caller, after, limit);
  if (!first) throw unknownSession();
  let page: typeof first | null = first;
  let left = limit;
  const body = new ReadableStream<Uint8Array>({
    async pull(controller) {
      if (!page || page.count === 0) return controller.close();
      controller.enqueue(new TextEncoder().encode(page.text));
      left -= page.count;
      page = left > 0 ? await session.events(caller, page.last, left) : null;
    },
  });
  return c.body(body, 200, { "Content-Type": "application/x-ndjson; charset=utf-8" });
});

api.get("/workspaces/:id", async (c) => {
  const id = c.req.param("id");
  const caller = c.get("caller");
  if (!mayUseWorkspace(caller, id)) throw new HTTPException(404, { message: "Unknown workspace" });
  return c.json(await c.env.WORKSPACE_STATE_DO.getByName(`${caller.tenant}/${id}`).view(id));
});

const LIST_QUERY = z.object({
  limit: z.coerce.number().int().min(1).max(200).default(50),
  cursor: z.string().max(500).optional(),
});
const EVENTS_QUERY = z.object({
  after: z.coerce.number().int().min(0).default(0),
  limit: z.coerce.number().int().min(1).default(Number.MAX_SAFE_INTEGER),
});

function parse<T>(schema: z.ZodType<T>, query: Record<string, string>): T {
  const result = schema.safeParse(query);
  if (result.success) return result.data;
  throw new HTTPException(400, { message: z.prettifyError(result.error) });
}

function sessionOf(env: Env, id: string): DurableObjectStub<AcpSession> {
  if (!isUuid(id)) throw unknownSession();
  return env.ACP_SESSION_DO.getByName(id);
}

function unknownSession(): HTTPException {
  return new HTTPException(404, { message: "Unknown session" });
}
