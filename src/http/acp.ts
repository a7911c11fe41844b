import { type Context, Hono } from "hono";
import { HTTPException } from "hono/http-exception";
import { type Handover, rightsOf } from "../connection/client.ts";
import { mayUseWorkspace, ownWorkspace } from "../protocol/caller.ts";
import { isUuid } from "../protocol/ids.ts";
import { postMessage } from "./acp-post.ts";
import { openStream } from "./acp-stream.ts";
import { type AppEnv, requireScope } from "./auth.ts";
import { upgraded } from "./upgrade.ts";

/**
 * Where ACP clients connect: with a WebSocket, which is handed over to an object of its own, or over Streamable
 * HTTP, whose requests meet in such an object. What needs no state is settled here.
 */
export const acp = new Hono<AppEnv>();

acp.all("/", requireScope("session:prompt", "session:read"), async (c): Promise<Response> => {
  // Not `c.req.method`: a HEAD request comes here as a GET.
  switch (c.req.raw.method) {
    case "GET":
      return c.req.header("Upgrade")?.toLowerCase() === "websocket" ? handOver(c) : openStream(c);
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
  const response = await c.env.ACP_CONNECTION_DO.getByName(order.connection).fetch("https://connection/", {
    headers: { Upgrade: "websocket", "X-Acp-Handover": JSON.stringify(order) },
  });
  return upgraded(c.req.raw, response);
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
  const caller = rightsOf(c.get("caller"), looksOn || {});
  const workspace = c.req.query("workspace") ?? ownWorkspace(caller);
  if (workspace === undefined) throw new HTTPException(400, { message: "Say which workspace: ?workspace=" });
  if (!mayUseWorkspace(caller, workspace)) throw new HTTPException(404, { message: "Unknown workspace" });
  const agent = c.req.query("agent") ?? null;
  return { connection: crypto.randomUUID(), caller, workspace, agent, ...looksOn };
}
