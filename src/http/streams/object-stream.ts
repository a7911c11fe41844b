import type { Context } from "hono";
import type { AppEnv } from "../app-env.ts";
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
  const { keepAliveMs, socketIdleMs } = c.get("limits");
  const response = await object.fetch("https://object/stream", {
    headers: { Upgrade: "websocket", ...headers },
  });
  if (!response.webSocket) return new Response(response.body, response);
  response.webSocket.accept();
  const body = eventStream(response.webSocket, {
    keepAliveMs,
    stallMs: socketIdleMs,
    endsAt,
    signal: c.req.raw.signal,
  });
  return c.body(body, 200, {
    "Content-Type": "text/event-stream",
    "Cache-Control": "no-cache, no-transform",
  });
}
