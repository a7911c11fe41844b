import type { Context } from "hono";
import { LIMITS } from "../../protocol/limits.ts";
import type { AppEnv } from "../middleware/auth.ts";
import { eventStream } from "./event-stream.ts";

/**
 * What an object has for a reader, as an event stream. The object gets the request in `headers` and answers with a
 * socket that gives a page at a time, or with its refusal, which is returned as it is. The stream ends with the
 * caller's token, unless the object sees to that.
 */
export async function objectStream(
  c: Context<AppEnv>,
  object: Pick<Fetcher, "fetch">,
  headers: Record<string, string>,
  endsAt = c.get("caller").expires * 1000,
): Promise<Response> {
  const response = await object.fetch("https://object/stream", {
    headers: { Upgrade: "websocket", ...headers },
  });
  if (!response.webSocket) return new Response(response.body, response);
  response.webSocket.accept();
  const body = eventStream(response.webSocket, {
    keepAliveMs: LIMITS.keepAliveMs,
    stallMs: LIMITS.socketIdleMs,
    endsAt,
    signal: c.req.raw.signal,
  });
  return c.body(body, 200, {
    "Content-Type": "text/event-stream",
    "Cache-Control": "no-cache, no-transform",
  });
}
