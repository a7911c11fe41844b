import type { Context } from "hono";
import { accepted, type Result } from "../../protocol/refusal.ts";
import type { AppEnv } from "../app-env.ts";
import { requestSocket } from "../object-socket.ts";
import { eventStream } from "./event-stream.ts";

export function acceptsEventStream(c: Context<AppEnv>): boolean {
  return c.req.header("Accept")?.toLowerCase().includes("text/event-stream") ?? false;
}

/**
 * An event stream from an object. The object reads the request from `headers` and answers with a socket that sends one
 * page at a time. The stream ends when the caller's token expires, unless the object ends it.
 */
export async function objectStream(
  c: Context<AppEnv>,
  find: () => Pick<Fetcher, "fetch">,
  headers: Record<string, string>,
  endsAt = c.get("caller").expires * 1000,
): Promise<Result<Response>> {
  const { keepAliveMs, socketIdleMs } = c.get("limits");
  const response = await requestSocket(find, headers);
  if (!response.ok) return response;
  const { webSocket } = response.value;
  webSocket.accept();
  const body = eventStream(webSocket, {
    keepAliveMs,
    stallMs: socketIdleMs,
    endsAt,
    signal: c.req.raw.signal,
  });
  return accepted(
    c.body(body, 200, {
      "Content-Type": "text/event-stream",
      "Cache-Control": "no-store, no-transform",
    }),
  );
}
