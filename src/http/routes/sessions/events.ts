import { Hono } from "hono";
import type { Result } from "../../../protocol/refusal.ts";
import { EVENTS_QUERY } from "../../../protocol/rest.ts";
import type { EventsPage } from "../../../protocol/rpc.ts";
import { readable } from "../../../protocol/versions.ts";
import type { AppEnv } from "../../app-env.ts";
import { parseQuery } from "../../input.ts";
import { unwrap } from "../../refusal-response.ts";
import { askSession } from "../../targets.ts";
import { liveEvents } from "./live-events.ts";

export const eventRoutes = new Hono<AppEnv>();

/** The log as NDJSON: `limit` events, or all of them. A reader that accepts an event stream gets it live. */
eventRoutes.get("/sessions/:id/events", liveEvents, async (c) => {
  const { after, limit } = parseQuery(c, EVENTS_QUERY);
  const caller = c.get("caller");
  const eventsAfter = (seq: number, max: number) =>
    askSession(c, c.req.param("id"), (session) => session.events(caller, seq, max));
  let page: Result<EventsPage> | null = await eventsAfter(after, limit);
  unwrap(page);
  let left = limit;
  const encoder = new TextEncoder();
  const body = new ReadableStream<Uint8Array>({
    async pull(controller) {
      // A stream that ended without an error would look like the whole log.
      const value = page && readable(unwrap(page), "A page of the log");
      if (!value || value.count === 0) return controller.close();
      const { text, count, last } = value;
      controller.enqueue(encoder.encode(text));
      left -= count;
      page = left > 0 ? await eventsAfter(last, left) : null;
    },
  });
  return c.body(body, 200, { "Content-Type": "application/x-ndjson; charset=utf-8" });
});
