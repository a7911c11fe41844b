import { makeAnswerLinks } from "../../auth/answer-link.ts";
import { parseClientRequestId } from "../../protocol/ids.ts";
import type { Limits } from "../../protocol/limits.ts";
import type { Ping, WebhookMessage } from "../../protocol/webhook-messages.ts";
import type { WorkspaceIdentity } from "../store.ts";

/**
 * Adds a link for each option to a message about a permission request. The links are made for each attempt and stored
 * nowhere.
 */
export async function withAnswerLinks(
  env: Pick<Env, "SECRETS_KEY">,
  origin: string,
  { tenant, workspace }: WorkspaceIdentity,
  webhook: string,
  body: string,
  limits: Limits,
): Promise<string> {
  const message = JSON.parse(body) as WebhookMessage | Ping;
  if (message.type !== "permission.pending") return body;
  const { sessionId: session, permission } = message.data;
  const seq = parseClientRequestId(permission.id)?.seq;
  if (seq === undefined) return body;
  const expires = Math.floor(Date.now() / 1000) + limits.answerLinkSeconds;
  const id = crypto.randomUUID();
  const request = { tenant, workspace, session, seq, by: `webhook:${webhook}`, id, expires, webhook };
  const options = await makeAnswerLinks(env, origin, request, permission.options, limits);
  if (options) permission.options = options;
  return JSON.stringify(message);
}
