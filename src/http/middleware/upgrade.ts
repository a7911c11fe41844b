import { createMiddleware } from "hono/factory";
import { HTTPException } from "hono/http-exception";
import { agreedProtocol } from "./credential.ts";

export const requireUpgrade = createMiddleware(async (c, next) => {
  if (c.req.header("Upgrade")?.toLowerCase() !== "websocket")
    throw new HTTPException(426, { message: "Connect with a WebSocket" });
  await next();
});

/** An object's answer to an upgrade, with the protocol the client and we agree on. */
export function upgraded(request: Request, response: Response): Response {
  const protocol = agreedProtocol(request.headers);
  const agreed = response.headers.has("Sec-WebSocket-Protocol");
  if (!response.webSocket || agreed || protocol === undefined) return response;
  const headers = new Headers(response.headers);
  headers.set("Sec-WebSocket-Protocol", protocol);
  return new Response(null, { status: 101, webSocket: response.webSocket, headers });
}
