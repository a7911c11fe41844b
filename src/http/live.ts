import { createMiddleware } from "hono/factory";
import { HTTPException } from "hono/http-exception";
import { z } from "zod";
import { LIMITS } from "../protocol/limits.ts";
import type { WatchRequest } from "../session/session.ts";
import type { AppEnv } from "./auth.ts";
import { eventStream } from "./event-stream.ts";
import { parse, sessionOf, unknownSession } from "./params.ts";

/** The log as it grows, for who accepts an event stream. A reader that comes back goes on after its last event. */
export const liveEvents = createMiddleware<AppEnv>(async (c, next) => {
  if (!c.req.header("Accept")?.includes("text/event-stream")) return next();
  const caller = c.get("caller");
  // A browser that reconnects repeats the address it was given, so its header is the newer word.
  const { after } = parse(QUERY, { after: c.req.header("Last-Event-ID") ?? c.req.query("after") });
  const watch: WatchRequest = { caller, after };
  const session = sessionOf(c.env, c.req.param("id") ?? "");
  const response = await session.fetch("https://session/watch", {
    headers: { Upgrade: "websocket", "X-Acp-Watch": JSON.stringify(watch) },
  });
  if (response.status === 429)
    throw new HTTPException(429, {
      message: `A session has at most ${LIMITS.watchersPerSession} live readers`,
    });
  if (!response.webSocket) throw unknownSession();
  response.webSocket.accept();
  const body = eventStream(response.webSocket, {
    keepAliveMs: LIMITS.keepAliveMs,
    endsAt: caller.expires * 1000,
    signal: c.req.raw.signal,
  });
  return c.body(body, 200, {
    "Content-Type": "text/event-stream; charset=utf-8",
    "Cache-Control": "no-cache, no-transform",
  });
});

const QUERY = z.object({ after: z.coerce.number().int().min(0).default(0) });
