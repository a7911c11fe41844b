import { makeAnswerLinks } from "../../auth/answer-link.ts";
import { parseClientRequestId } from "../../protocol/ids.ts";
import { LIMITS } from "../../protocol/limits.ts";
import type { Ping, SessionNotice } from "../../protocol/webhook-messages.ts";
import type { Identity } from "../store.ts";

/** A message with links that answer what it asks. They are made for each attempt and stored nowhere. */
export async function withAnswerLinks(
  env: Pick<Env, "SECRETS_KEY">,
  origin: string,
  { tenant, workspace }: Identity,
  webhook: string,
  body: string,
): Promise<string> {
  const message = JSON.parse(body) as SessionNotice | Ping;
  if (message.type !== "permission.pending") return body;
  const { sessionId: session, permission } = message.data;
  const seq = parseClientRequestId(permission.id)?.seq;
  if (seq === undefined) return body;
  const expires = Math.floor(Date.now() / 1000) + LIMITS.answerLinkSeconds;
  const id = crypto.randomUUID();
  const request = { tenant, workspace, session, seq, by: `webhook:${webhook}`, id, expires, webhook };
  const options = await makeAnswerLinks(env, origin, request, permission.options, LIMITS);
  if (options) permission.options = options;
  return JSON.stringify(message);
}
