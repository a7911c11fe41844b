import { createMiddleware } from "hono/factory";
import { HTTPException } from "hono/http-exception";
import { z } from "zod";
import { WATCH_LOG } from "../../../protocol/internal-headers.ts";
import type { AppEnv } from "../../app-env.ts";
import { parse, sessionOf, unknownSession } from "../../params.ts";
import { objectStream } from "../../streams/object-stream.ts";

/** The log as it grows, for who accepts an event stream. A reader that comes back goes on after its last event. */
export const liveEvents = createMiddleware<AppEnv>(async (c, next) => {
  if (!c.req.header("Accept")?.includes("text/event-stream")) return next();
  // A browser that reconnects repeats the address it was given, so its header is the newer word.
  const { after } = parse(QUERY, { after: c.req.header("Last-Event-ID") ?? c.req.query("after") });
  const watch = WATCH_LOG.write({ caller: c.get("caller"), after });
  const response = await objectStream(c, sessionOf(c, c.req.param("id") ?? ""), watch);
  if (response.ok) return response;
  if (response.status !== 429) throw unknownSession(c.req.param("id") ?? "");
  const message = `A session has at most ${c.get("limits").watchersPerSession} live readers`;
  throw new HTTPException(429, { message });
});

const QUERY = z.object({ after: z.coerce.number().int().min(0).default(0) });
