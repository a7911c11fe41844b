import { timingSafeEqual } from "node:crypto";
import { type IncomingMessage, Server, ServerResponse } from "node:http";
import { Socket } from "node:net";
import { LOOPBACK_SECRET } from "../../protocol/loopback-secret.ts";

/**
 * Miniflare listens on a port of this machine for workerd and asks nobody who calls: any process could write files with
 * the rights of the gateway, or start hosts. The guard refuses every request to an HTTP server of this process that
 * lacks the secret, before Miniflare sees the request. The Worker alone knows the secret.
 */
export function guardServers(secret: string): void {
  const emit = Server.prototype.emit;
  Server.prototype.emit = function guarded(this: Server, event: string | symbol, ...args: unknown[]) {
    const [request, answer] = args as [IncomingMessage, unknown];
    const isRequest = ["request", "upgrade", "connect", "checkContinue", "checkExpectation"].includes(
      String(event),
    );
    if (!isRequest || isSecret(request.headers[LOOPBACK_SECRET], secret))
      return Reflect.apply(emit, this, [event, ...args]) as boolean;
    refuse(answer);
    return true;
  };
}

/** Takes as long for a wrong text as for the right one. */
export function isSecret(text: unknown, secret: string): boolean {
  const [given, expected] = [Buffer.from(typeof text === "string" ? text : ""), Buffer.from(secret)];
  return given.length === expected.length && timingSafeEqual(given, expected);
}

function refuse(answer: unknown): void {
  if (answer instanceof ServerResponse) answer.writeHead(403, { connection: "close" }).end();
  else if (answer instanceof Socket) answer.destroy();
}
