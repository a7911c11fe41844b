import type { Context } from "hono";
import type { StreamRequest } from "../connection/http-client.ts";
import { isUuid } from "../protocol/ids.ts";
import { LIMITS } from "../protocol/limits.ts";
import type { AppEnv } from "./auth.ts";
import { eventStream } from "./event-stream.ts";

/** What the gateway has to say to a client over HTTP: of one session, or of the connection itself. */
export async function openStream(c: Context<AppEnv>): Promise<Response> {
  if (!c.req.header("Accept")?.toLowerCase().includes("text/event-stream"))
    return c.text("Not Acceptable", 406);
  const connection = c.req.header("Acp-Connection-Id");
  if (!connection) return c.text("Missing Acp-Connection-Id", 400);
  if (!isUuid(connection)) return c.text("Unknown Acp-Connection-Id", 404);
  const caller = c.get("caller");
  const request: StreamRequest = {
    caller,
    session: c.req.header("Acp-Session-Id") || undefined,
    lastEventId: c.req.header("Last-Event-ID") || undefined,
  };
  const response = await c.env.ACP_CONNECTION_DO.getByName(connection).fetch("https://connection/stream", {
    headers: { Upgrade: "websocket", "X-Acp-Stream": JSON.stringify(request) },
  });
  if (!response.webSocket) return new Response(response.body, response);
  response.webSocket.accept();
  const body = eventStream(response.webSocket, {
    keepAliveMs: LIMITS.keepAliveMs,
    // The connection ends it with its token, which may be a newer one by then.
    endsAt: Number.POSITIVE_INFINITY,
    signal: c.req.raw.signal,
  });
  return c.body(body, 200, {
    "Content-Type": "text/event-stream",
    "Cache-Control": "no-cache, no-transform",
  });
}
