import type { Context } from "hono";
import type { AppEnv } from "../app-env.ts";
import { eventStream } from "./event-stream.ts";

export function acceptsEventStream(c: Context<AppEnv>): boolean {
  return c.req.header("Accept")?.toLowerCase().includes("text/event-stream") ?? false;
}

/**
 * An event stream from an object. The object reads the request from `headers` and answers with a socket that sends one
 * page at a time. A refusal of the object is returned unchanged. The stream ends when the caller's token expires,
 * unless the object ends it.
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
