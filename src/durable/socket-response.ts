import { REFUSAL } from "../protocol/internal-headers.ts";
import type { Result } from "../protocol/refusal.ts";

/** Answers a request of the Worker for a socket. The Worker reads a refusal from its header, see http/object-socket.ts. */
export function socketResponse(result: Result<WebSocket>, headers: Record<string, string> = {}): Response {
  if (result.ok) return new Response(null, { status: 101, webSocket: result.value, headers });
  return new Response(null, { status: 400, headers: REFUSAL.write(result.refusal) });
}
