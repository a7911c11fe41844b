import { type Context, Hono } from "hono";
import { asObserver, mayUseWorkspace } from "../../../protocol/caller.ts";
import { isUuid } from "../../../protocol/ids.ts";
import { HANDOVER, RESUMPTION } from "../../../protocol/internal-headers.ts";
import { RESUMABLE } from "../../../protocol/resumable-wire.ts";
import type { Handover } from "../../../protocol/rpc.ts";
import type { AppEnv } from "../../app-env.ts";
import { openSocket, requireSocketScope } from "../../middleware/authentication.ts";
import { isWebSocketUpgrade, withSubprotocol } from "../../middleware/upgrade.ts";
import { respondInText } from "../../refusal-response.ts";
import { connectionOf, requestedWorkspace, unknownWorkspace } from "../../targets.ts";
import { postMessage } from "./post.ts";
import { openStream } from "./stream.ts";

/**
 * Where ACP clients connect, with a WebSocket or over Streamable HTTP. Each client has an AcpConnection object: it gets
 * the client's socket, or the client's HTTP requests. Checks that need no state happen here.
 */
export const acpRoutes = new Hono<AppEnv>();

acpRoutes.all("/", requireSocketScope("session:prompt", "session:read"), async (c): Promise<Response> => {
  // Hono reports the method of a HEAD request as GET, so we ask the raw request.
  switch (c.req.raw.method) {
    case "GET":
      if (!isWebSocketUpgrade(c.req.raw)) return openStream(c);
      return offersResumable(c) ? openResumableSocket(c) : openWebSocket(c);
    case "POST":
      return postMessage(c, () => newHandover(c));
    case "DELETE":
      return removeConnection(c);
    default:
      return c.text("Method Not Allowed", 405, { Allow: "GET, POST, DELETE" });
  }
});

export async function openWebSocket(c: Context<AppEnv>, more: Partial<Handover> = {}): Promise<Response> {
  return passSocket(c, { ...newHandover(c), ...more });
}

/** A client of the resumable wire opens a new connection, or returns to the connection that it names. */
async function openResumableSocket(c: Context<AppEnv>): Promise<Response> {
  const known = c.req.header("Acp-Connection-Id") ?? c.req.query("connection");
  if (known !== undefined && !isUuid(known)) return c.text("Unknown Acp-Connection-Id", 404);
  const handover = { ...newHandover(c), ...(known !== undefined && { connection: known }) };
  return passSocket(c, handover, RESUMPTION.write(known === undefined ? "new" : "again"));
}

async function passSocket(
  c: Context<AppEnv>,
  handover: Handover,
  more: Record<string, string> = {},
): Promise<Response> {
  const headers = { ...HANDOVER.write(handover), ...more };
  const response = await openSocket(c, () => connectionOf(c, handover.connection), headers);
  return response.ok ? withSubprotocol(c.req.raw, response.value) : respondInText(c, response.refusal);
}

function offersResumable(c: Context<AppEnv>): boolean {
  const offered = c.req.header("Sec-WebSocket-Protocol") ?? "";
  return offered.split(",").some((name) => name.trim() === RESUMABLE);
}

async function removeConnection(c: Context<AppEnv>): Promise<Response> {
  const connection = c.req.header("Acp-Connection-Id");
  if (!connection) return c.text("Missing Acp-Connection-Id", 400);
  if (!isUuid(connection)) return c.text("Unknown Acp-Connection-Id", 404);
  const result = await connectionOf(c, connection).remove(c.get("caller"));
  return result.ok ? c.body(null, 202) : respondInText(c, result.refusal);
}

/** A new connection in the requested workspace. A client may ask to observe only, whatever its token allows. */
function newHandover(c: Context<AppEnv>): Handover {
  const observes = c.req.query("role") === "observer" && ({ observes: true } as const);
  const caller = observes ? asObserver(c.get("caller")) : c.get("caller");
  const workspace = requestedWorkspace(c);
  if (!mayUseWorkspace(caller, workspace)) throw unknownWorkspace();
  const agent = c.req.query("agent") ?? null;
  return { connection: crypto.randomUUID(), caller, workspace, agent, ...observes };
}
