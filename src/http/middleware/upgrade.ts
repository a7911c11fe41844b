import { createMiddleware } from "hono/factory";
import { HTTPException } from "hono/http-exception";
import { agreedProtocol } from "./credential.ts";

export function isUpgrade({ headers }: Request): boolean {
  return headers.has("Upgrade");
}

export function isWebSocketUpgrade({ headers }: Request): boolean {
  return headers.get("Upgrade")?.toLowerCase() === "websocket";
}

export const requireUpgrade = createMiddleware(async (c, next) => {
  if (!isWebSocketUpgrade(c.req.raw)) throw new HTTPException(426, { message: "Connect with a WebSocket" });
  await next();
});

/** Adds the agreed subprotocol to an object's answer to an upgrade, unless the object has chosen one. */
export function withSubprotocol(request: Request, response: Response): Response {
  const protocol = agreedProtocol(request.headers);
  const isChosen = response.headers.has("Sec-WebSocket-Protocol");
  if (!response.webSocket || isChosen || protocol === undefined) return response;
  const headers = new Headers(response.headers);
  headers.set("Sec-WebSocket-Protocol", protocol);
  return new Response(null, { status: 101, webSocket: response.webSocket, headers });
}
