import { makeAnswerLinks } from "../../auth/answer-link.ts";
import type { SecretsVars } from "../../auth/derived-keys.ts";
import { parseClientRequestId } from "../../protocol/ids.ts";
import type { Limits } from "../../protocol/limits.ts";
import type { Maker } from "../../protocol/maker.ts";
import type { Ping, WebhookMessage } from "../../protocol/webhook-messages.ts";
import type { WorkspaceIdentity } from "../store.ts";

/**
 * Adds a link for each option to a message about a permission request. The links are made for each attempt and stored
 * nowhere.
 */
export async function withAnswerLinks(
  env: SecretsVars,
  origin: string,
  { tenant, workspace }: WorkspaceIdentity,
  { id: webhook, maker }: { id: string; maker: Maker },
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
  const request = { tenant, workspace, session, seq, by: `webhook:${webhook}`, maker, id, expires, webhook };
  const options = await makeAnswerLinks(env, origin, request, permission.options, limits);
  if (options) permission.options = options;
  return JSON.stringify(message);
}
