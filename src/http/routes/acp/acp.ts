import { type Context, Hono } from "hono";
import { HTTPException } from "hono/http-exception";
import { asObserver, mayUseWorkspace } from "../../../protocol/caller.ts";
import { isUuid } from "../../../protocol/ids.ts";
import { HANDOVER, RESUMPTION } from "../../../protocol/internal-headers.ts";
import { RESUMABLE } from "../../../protocol/resumable-wire.ts";
import type { Handover } from "../../../protocol/rpc.ts";
import type { AppEnv } from "../../app-env.ts";
import { requireScope } from "../../middleware/authentication.ts";
import { limitConnections } from "../../middleware/rate-limits.ts";
import { isWebSocketUpgrade, withSubprotocol } from "../../middleware/upgrade.ts";
import { chosenWorkspace } from "../workspaces.ts";
import { postMessage } from "./post.ts";
import { openStream } from "./stream.ts";

/**
 * Where ACP clients connect: with a WebSocket, which is handed over to an object of its own, or over Streamable
 * HTTP, whose requests meet in such an object. What needs no state is settled here.
 */
export const acp = new Hono<AppEnv>();

acp.all("/", requireScope("session:prompt", "session:read"), async (c): Promise<Response> => {
  // Not `c.req.method`: a HEAD request comes here as a GET.
  switch (c.req.raw.method) {
    case "GET":
      if (!isWebSocketUpgrade(c.req.raw)) return openStream(c);
      return offersResuming(c) ? handOverResumable(c) : handOver(c);
    case "POST":
      return postMessage(c, () => handover(c));
    case "DELETE":
      return remove(c);
    default:
      return c.text("Method Not Allowed", 405, { Allow: "GET, POST, DELETE" });
  }
});

/** `more` is what a connection must know besides where its client comes from. */
export async function handOver(c: Context<AppEnv>, more: Partial<Handover> = {}): Promise<Response> {
  const order = { ...handover(c), ...more };
  await limitConnections(c);
  return dial(c, order);
}

/** The same for a client that comes back should it lose its socket, or has come back. */
async function handOverResumable(c: Context<AppEnv>): Promise<Response> {
  const again = c.req.header("Acp-Connection-Id") ?? c.req.query("connection");
  if (again !== undefined && !isUuid(again)) return c.text("Unknown Acp-Connection-Id", 404);
  if (again === undefined) await limitConnections(c);
  const order = { ...handover(c), ...(again !== undefined && { connection: again }) };
  return dial(c, order, RESUMPTION.write(again === undefined ? "new" : "again"));
}

async function dial(
  c: Context<AppEnv>,
  order: Handover,
  more: Record<string, string> = {},
): Promise<Response> {
  const response = await c.env.ACP_CONNECTION_DO.getByName(order.connection).fetch("https://connection/", {
    headers: { Upgrade: "websocket", ...HANDOVER.write(order), ...more },
  });
  return withSubprotocol(c.req.raw, response);
}

function offersResuming(c: Context<AppEnv>): boolean {
  const offered = c.req.header("Sec-WebSocket-Protocol") ?? "";
  return offered.split(",").some((name) => name.trim() === RESUMABLE);
}

async function remove(c: Context<AppEnv>): Promise<Response> {
  const connection = c.req.header("Acp-Connection-Id");
  if (!connection) return c.text("Missing Acp-Connection-Id", 400);
  if (!isUuid(connection)) return c.text("Unknown Acp-Connection-Id", 404);
  const { status, reason } = await c.env.ACP_CONNECTION_DO.getByName(connection).remove(c.get("caller"));
  return status === 202 ? c.body(null, status) : c.text(reason, status);
}

/** A new connection, in the workspace the client names or its token is for. */
function handover(c: Context<AppEnv>): Handover {
  const looksOn = c.req.query("role") === "observer" && ({ looksOn: true } as const);
  const caller = looksOn ? asObserver(c.get("caller")) : c.get("caller");
  const workspace = chosenWorkspace(c);
  if (!mayUseWorkspace(caller, workspace)) throw new HTTPException(404, { message: "Unknown workspace" });
  const agent = c.req.query("agent") ?? null;
  return { connection: crypto.randomUUID(), caller, workspace, agent, ...looksOn };
}
