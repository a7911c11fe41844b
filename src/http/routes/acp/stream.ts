import type { Context } from "hono";
import { isUuid } from "../../../protocol/ids.ts";
import { STREAM } from "../../../protocol/internal-headers.ts";
import type { AppEnv } from "../../app-env.ts";
import { objectStream } from "../../streams/object-stream.ts";

/** What the gateway has to say to a client over HTTP: of one session, or of the connection itself. */
export async function openStream(c: Context<AppEnv>): Promise<Response> {
  if (!c.req.header("Accept")?.toLowerCase().includes("text/event-stream"))
    return c.text("Not Acceptable", 406);
  const connection = c.req.header("Acp-Connection-Id");
  if (!connection) return c.text("Missing Acp-Connection-Id", 400);
  if (!isUuid(connection)) return c.text("Unknown Acp-Connection-Id", 404);
  const request = STREAM.write({
    caller: c.get("caller"),
    session: c.req.header("Acp-Session-Id") || undefined,
    lastEventId: c.req.header("Last-Event-ID") || undefined,
  });
  // The connection ends it with its token, which may be a newer one by then.
  const endsAt = Number.POSITIVE_INFINITY;
  return objectStream(c, c.env.ACP_CONNECTION_DO.getByName(connection), request, endsAt);
}
