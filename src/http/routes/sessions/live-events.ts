import { createMiddleware } from "hono/factory";
import { WATCH_LOG } from "../../../protocol/internal-headers.ts";
import { LIVE_EVENTS_QUERY } from "../../../protocol/rest.ts";
import type { AppEnv } from "../../app-env.ts";
import { parse } from "../../input.ts";
import { unwrap } from "../../refusal-response.ts";
import { acceptsEventStream, objectStream } from "../../streams/object-stream.ts";
import { sessionOf } from "../../targets.ts";

/** Streams the log as it grows to a reader that accepts an event stream. */
export const liveEvents = createMiddleware<AppEnv>(async (c, next) => {
  if (!acceptsEventStream(c)) return next();
  const id = c.req.param("id") ?? "";
  // A browser that reconnects repeats the original URL, so its Last-Event-ID is newer than `after`.
  const { after } = parse(LIVE_EVENTS_QUERY, {
    after: c.req.header("Last-Event-ID") ?? c.req.query("after"),
  });
  const socket = crypto.randomUUID();
  const watch = WATCH_LOG.write({ caller: c.get("caller"), after, socket });
  return unwrap(await objectStream(c, () => sessionOf(c, id), watch));
});
