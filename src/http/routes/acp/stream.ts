import type { Context } from "hono";
import { isUuid } from "../../../protocol/ids.ts";
import { STREAM } from "../../../protocol/internal-headers.ts";
import type { AppEnv } from "../../app-env.ts";
import { respondInText } from "../../refusal-response.ts";
import { acceptsEventStream, objectStream } from "../../streams/object-stream.ts";
import { connectionOf } from "../../targets.ts";

/** The server-to-client half of Streamable HTTP: one stream per session, and one for the connection itself. */
export async function openStream(c: Context<AppEnv>): Promise<Response> {
  if (!acceptsEventStream(c)) return c.text("Not Acceptable", 406);
  const connection = c.req.header("Acp-Connection-Id");
  if (!connection) return c.text("Missing Acp-Connection-Id", 400);
  if (!isUuid(connection)) return c.text("Unknown Acp-Connection-Id", 404);
  const request = STREAM.write({
    caller: c.get("caller"),
    session: c.req.header("Acp-Session-Id") || undefined,
    lastEventId: c.req.header("Last-Event-ID") || undefined,
  });
  // The client may renew its token while the stream is open, so the connection ends the stream.
  const endsAt = Number.POSITIVE_INFINITY;
  const stream = await objectStream(c, () => connectionOf(c, connection), request, endsAt);
  return stream.ok ? stream.value : respondInText(c, stream.refusal);
}
