import { type Context, Hono } from "hono";
import { accepts } from "hono/accepts";
import { HTTPException } from "hono/http-exception";
import { type AnswerLink, readAnswerLink } from "../../../auth/answer-link.ts";
import { callObject } from "../../../durable/object-call.ts";
import {
  type SessionObject,
  sessionObject,
  tenantObject,
  workspaceObject,
} from "../../../durable/objects.ts";
import type { Caller } from "../../../protocol/caller.ts";
import { type AgentRequest, clientRequestId } from "../../../protocol/ids.ts";
import { parseJson } from "../../../protocol/json-value.ts";
import { makerOf } from "../../../protocol/maker.ts";
import type { PermissionOption, PermissionSummary } from "../../../protocol/permission.ts";
import type { QuestionAnswer, QuestionSummary } from "../../../protocol/question.ts";
import { type AnsweredQuestion, QUESTION_ANSWER } from "../../../protocol/question-rest.ts";
import type { AnsweredPermission } from "../../../protocol/rest.ts";
import { auditRefusedToken } from "../../../tenant/client/refused-token-audit.ts";
import type { AppEnv } from "../../app-env.ts";
import { parse, parseBody } from "../../input.ts";
import { RefusalException } from "../../refusal-response.ts";
import { answeredPage, page, permissionPage, refusalPage } from "./page.ts";
import { contentOf, questionAnsweredPage, questionPage } from "./question-page.ts";

/**
 * The target of a link in a notification. Mail scanners and chats fetch the links they see, so GET changes nothing;
 * the button on the page answers with POST.
 */
export const answerLinkRoutes = new Hono<AppEnv>();

/** A link is a secret, and the state of its request may change at any time: neither is to be cached or indexed. */
answerLinkRoutes.use(async (c, next) => {
  c.header("Cache-Control", "no-store");
  c.header("X-Robots-Tag", "noindex, nofollow");
  await next();
});

answerLinkRoutes.get("/", async (c) => {
  const link = await openLink(c);
  return link.optionId === undefined ? showQuestion(c, link) : showPermission(c, link);
});

answerLinkRoutes.post("/", async (c) => {
  const link = await openLink(c);
  return link.optionId === undefined ? answerQuestion(c, link) : answerPermission(c, link);
});

async function showPermission(c: Context<AppEnv>, link: AnswerLink): Promise<Response> {
  const { permission, option } = await pendingPermission(c, link);
  if (!wantsJson(c)) return page(c, permissionPage(link, permission, option));
  const { workspace, sessionTitle, title, kind, details } = permission;
  const session = { id: link.session, title: sessionTitle };
  return c.json({ id: idOf(link), workspace, session, title, kind, details, option });
}

async function answerPermission(c: Context<AppEnv>, link: AnswerLink): Promise<Response> {
  const { permission, option } = await pendingPermission(c, link);
  const { optionId } = option;
  const session = sessionOf(c, link);
  const answered = await session.answerPermission(callerBy(link), requestOf(link), { optionId }, "link");
  if (!answered.ok) throw settled();
  if (!wantsJson(c)) return page(c, answeredPage(permission, option));
  return c.json<AnsweredPermission>({ id: idOf(link), outcome: { outcome: "selected", optionId } });
}

async function showQuestion(c: Context<AppEnv>, link: AnswerLink): Promise<Response> {
  const question = await pendingQuestion(c, link);
  if (!wantsJson(c)) return page(c, questionPage(link, question));
  const { workspace, sessionTitle, mode, message, url } = question;
  const requestedSchema = question.requestedSchema === null ? null : parseJson(question.requestedSchema);
  const session = { id: link.session, title: sessionTitle };
  return c.json({ id: idOf(link), workspace, session, mode, message, requestedSchema, url });
}

/** An answer that does not fit shows the form again, filled in as before. */
async function answerQuestion(c: Context<AppEnv>, link: AnswerLink): Promise<Response> {
  const question = await pendingQuestion(c, link);
  const answer = await answerIn(c, question);
  const answered = await sessionOf(c, link).answerQuestion(callerBy(link), requestOf(link), answer, "link");
  if (answered.ok) {
    if (!wantsJson(c)) return page(c, questionAnsweredPage(question, answer.action));
    return c.json<AnsweredQuestion>({ id: idOf(link), action: answer.action });
  }
  if (answered.refusal.reason === "not-found") throw settled();
  if (answered.refusal.reason !== "bad-answer" || wantsJson(c)) throw new RefusalException(answered.refusal);
  const refused = { content: answer.content ?? {}, problems: answered.refusal.fields };
  return page(c, questionPage(link, question, refused), 400);
}

/** The answer in the body: of a program as JSON, of the page as a form. */
async function answerIn(c: Context<AppEnv>, question: QuestionSummary): Promise<QuestionAnswer> {
  if (c.req.header("Content-Type")?.startsWith("application/json")) {
    const { action, content } = await parseBody(c, QUESTION_ANSWER);
    return content === undefined ? { action } : { action, content };
  }
  const form = await c.req.formData().catch(() => new FormData());
  const { action } = parse(QUESTION_ANSWER, { action: form.get("action") });
  const isForm = action === "accept" && question.mode === "form";
  return isForm ? { action, content: contentOf(question, form) } : { action };
}

/** People get refusals as a page; programs, and all other errors, get the error body of the app. */
answerLinkRoutes.onError((error, c) => {
  if (!(error instanceof HTTPException) || wantsJson(c)) throw error;
  return page(c, refusalPage(error.status, error.message), error.status);
});

/** Verifies a link before any session is asked. */
async function openLink(c: Context<AppEnv>): Promise<AnswerLink> {
  const read = await readAnswerLink(c.env, c.req.query("link") ?? "");
  if (!read.ok) throw read.refusal === "expired" ? gone("The link has expired") : unknownLink();
  const link = read.value;
  const caller = callerBy(link);
  if (await isLinkRevoked(c, link)) {
    c.executionCtx.waitUntil(auditRefusedToken(c.env, c.get("limits"), caller, "revoked link"));
    throw unknownLink();
  }
  if (!(await isOfActiveWebhook(c.env, link))) throw unknownLink();
  return link;
}

/** A revocation may name the link itself, the subject in whose name it answers, or its maker. */
async function isLinkRevoked(c: Context<AppEnv>, link: AnswerLink): Promise<boolean> {
  const bearer = makerOf(callerBy(link));
  return callObject(
    () => tenantObject(c.env, link.tenant),
    async (tenant) => (await tenant.isRevoked(bearer)) || tenant.isMakerRevoked(link.maker),
  );
}

/** The links that a webhook sent end with the webhook, and rest while the webhook pauses. */
async function isOfActiveWebhook(env: Env, { webhook, tenant, workspace }: AnswerLink): Promise<boolean> {
  if (webhook === undefined) return true;
  return callObject(
    () => workspaceObject(env, tenant, workspace),
    (object) => object.isWebhookActive(webhook),
  );
}

/** The permission request of a link, and the option that the link chooses. */
async function pendingPermission(
  c: Context<AppEnv>,
  link: AnswerLink,
): Promise<{ permission: PermissionSummary; option: PermissionOption }> {
  const summary = await callObject(
    () => sessionOf(c, link),
    (session) => session.permissionSummary(callerBy(link), requestOf(link)),
  );
  if (!summary.ok) throw settled();
  const option = summary.value.options.find(({ optionId }) => optionId === link.optionId);
  if (!option) throw unknownLink();
  return { permission: summary.value, option };
}

async function pendingQuestion(c: Context<AppEnv>, link: AnswerLink): Promise<QuestionSummary> {
  const summary = await callObject(
    () => sessionOf(c, link),
    (session) => session.questionSummary(callerBy(link), requestOf(link)),
  );
  if (!summary.ok) throw settled();
  return summary.value;
}

/** The bearer of a link acts for the link's maker, in one session. The link's id serves as the token's id. */
function callerBy({ tenant, workspace, session, by, id, expires }: AnswerLink): Caller {
  const scopes = ["session:read", "permission:answer"] as const;
  return { tenant, subject: by, workspaces: [workspace], scopes, session, jti: id, expires };
}

function sessionOf(c: Context<AppEnv>, { tenant, session }: AnswerLink): SessionObject {
  return sessionObject(c.env, tenant, session);
}

function requestOf({ session, seq }: AnswerLink): AgentRequest {
  return { sessionId: session, seq };
}

function idOf({ session, seq }: AnswerLink): string {
  return clientRequestId(session, seq);
}

function wantsJson(c: Context): boolean {
  const supports = ["text/html", "application/json"];
  return accepts(c, { header: "Accept", supports, default: "text/html" }) === "application/json";
}

/** A revoked link looks like a link that never existed. */
function unknownLink(): RefusalException {
  const message = "This link does not exist. It may be incomplete or revoked";
  return new RefusalException({ reason: "not-found", message });
}

function settled(): RefusalException {
  return gone("The request was answered or withdrawn, or its session no longer exists");
}

function gone(message: string): RefusalException {
  return new RefusalException({ reason: "gone", message });
}
