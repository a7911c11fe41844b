import { makeAnswerLinks, makeQuestionLink } from "../../auth/answer-link.ts";
import type { SecretsVars } from "../../auth/derived-keys.ts";
import { parseClientRequestId } from "../../protocol/ids.ts";
import type { Limits } from "../../protocol/limits.ts";
import type { Maker } from "../../protocol/maker.ts";
import type { Ping, WebhookMessage } from "../../protocol/webhook-messages.ts";
import type { WorkspaceIdentity } from "../store.ts";

/**
 * Adds a link for each option to a message about a permission request, and one link to a message about a question. The links are made for each attempt and stored
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
  if (message.type !== "permission.pending" && message.type !== "question.pending") return body;
  const { data } = message;
  const seq = parseClientRequestId("question" in data ? data.question.id : data.permission.id)?.seq;
  if (seq === undefined) return body;
  const expires = Math.floor(Date.now() / 1000) + limits.answerLinkSeconds;
  const id = crypto.randomUUID();
  const by = `webhook:${webhook}`;
  const request = { tenant, workspace, session: data.sessionId, seq, by, maker, id, expires, webhook };
  if ("question" in data) {
    const link = await makeQuestionLink(env, origin, request);
    if (link !== undefined) data.question.link = link;
  } else {
    const options = await makeAnswerLinks(env, origin, request, data.permission.options, limits);
    if (options) data.permission.options = options;
  }
  return JSON.stringify(message);
}
