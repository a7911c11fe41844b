import type { Context } from "hono";
import { errorResponse } from "../../../protocol/errors.ts";
import { type Frame, isFault, readFrame } from "../../../protocol/frame.ts";
import { isUuid } from "../../../protocol/ids.ts";
import { FAULTS, isIdTooLong } from "../../../protocol/jsonrpc-faults.ts";
import type { Limits } from "../../../protocol/limits.ts";
import { accepted, type Result, refused } from "../../../protocol/refusal.ts";
import type { Handover } from "../../../protocol/rpc.ts";
import type { AppEnv } from "../../app-env.ts";
import { RefusalException, respondInText } from "../../refusal-response.ts";
import { connectionOf } from "../../targets.ts";

/**
 * The client-to-server half of Streamable HTTP. `initialize` creates the connection and is answered in the response; all
 * other requests are answered on the streams, see stream.ts.
 */
export async function postMessage(c: Context<AppEnv>, newHandover: () => Handover): Promise<Response> {
  if (!isJson(c.req.header("Content-Type"))) return c.text("Unsupported Media Type", 415);
  const body = await readBody(c.req.raw, c.get("limits"));
  if (!body.ok && body.refusal === "too-long") return c.text("Payload Too Large", 413);
  const frame = body.ok ? readFrame(body.value) : ({ fault: "parse" } as const);
  if (isFault(frame)) {
    if (frame.fault === "batch" || frame.fault === "ambiguous")
      return json(c, errorResponse("null", FAULTS[frame.fault]), 400);
    return c.text(frame.fault === "parse" ? "Invalid JSON" : "Invalid JSON-RPC message", 400);
  }
  const connection = c.req.header("Acp-Connection-Id");
  if (isInitialize(frame)) {
    if (connection) return c.text("Initialize not allowed on existing connection", 400);
    return initialize(c, frame, newHandover);
  }
  if (!connection) return c.text("Missing Acp-Connection-Id", 400);
  if (!isUuid(connection)) return c.text("Unknown Acp-Connection-Id", 404);
  const result = await connectionOf(c, connection).post({
    caller: c.get("caller"),
    session: c.req.header("Acp-Session-Id") || undefined,
    raw: frame.raw,
  });
  return result.ok ? c.body(null, 202) : respondInText(c, result.refusal);
}

async function initialize(c: Context<AppEnv>, frame: Frame, newHandover: () => Handover): Promise<Response> {
  if (frame.value.id === null) return c.text("Initialize request must include an ID", 400);
  const { idChars } = c.get("limits");
  if (isIdTooLong(frame, idChars)) return c.text(`Ids have at most ${idChars} characters`, 400);
  const handover = newHandover();
  const { connection } = handover;
  const object = connectionOf(c, connection);
  const answer = await object.initialize(handover, frame.raw);
  if (typeof answer !== "string") throw new RefusalException(answer.refusal);
  return json(c, answer, 200, { "Acp-Connection-Id": connection });
}

function isInitialize({ value, kind, method }: Frame): boolean {
  return value.jsonrpc === "2.0" && kind === "request" && method === "initialize";
}

function json(
  c: Context<AppEnv>,
  text: string,
  status: 200 | 400,
  headers?: Record<string, string>,
): Response {
  return c.body(text, status, { "Content-Type": "application/json", ...headers });
}

function isJson(contentType: string | undefined): boolean {
  return contentType?.split(";", 1)[0]?.trim().toLowerCase() === "application/json";
}

/** Stops reading as soon as the text exceeds the longest frame. */
async function readBody(
  request: Request,
  { frameChars }: Limits,
): Promise<Result<string, "too-long" | "not-text">> {
  const decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: false });
  let text = "";
  if (!request.body) return accepted(text);
  const reader = request.body.getReader();
  try {
    for (;;) {
      const { done, value } = await reader.read();
      text += decoder.decode(value, { stream: !done });
      if (done) return accepted(text);
      if (text.length > frameChars) {
        await reader.cancel();
        return refused("too-long");
      }
    }
  } catch (error) {
    if (error instanceof TypeError) return refused("not-text");
    throw error;
  }
}
