import { type Context, Hono } from "hono";
import { accepts } from "hono/accepts";
import { HTTPException } from "hono/http-exception";
import { type AnswerLink, EXPIRED, readAnswerLink } from "../../../auth/answer-link.ts";
import { sessionObject, workspaceObject } from "../../../durable/object-names.ts";
import type { Caller } from "../../../protocol/caller.ts";
import { type AgentRequest, clientRequestId } from "../../../protocol/ids.ts";
import type { PermissionOption, PermissionSummary } from "../../../protocol/permission.ts";
import type { AcpSession } from "../../../session/acp-session.ts";
import { noteRefusal } from "../../../tenant/client/refused-token-audit.ts";
import { isRevoked } from "../../../tenant/client/revocation-cache.ts";
import type { AppEnv } from "../../app-env.ts";
import { answeredPage, askingPage, page, refusalPage } from "./page.ts";

/**
 * Where a link in a notification leads. Mail scanners and chats fetch what they are sent, so looking changes nothing:
 * the answer is given with a button, which posts.
 */
export const answer = new Hono<AppEnv>();

/** A link is a secret, and what it shows is true only now. */
answer.use(async (c, next) => {
  c.header("Cache-Control", "no-store");
  c.header("X-Robots-Tag", "noindex, nofollow");
  await next();
});

answer.get("/", async (c) => {
  const link = await openLink(c);
  const { permission, option } = await pendingPermission(c, link);
  if (!wantsJson(c)) return page(c, askingPage(link, permission, option));
  const { workspace, sessionTitle, title, kind } = permission;
  const session = { id: link.session, title: sessionTitle };
  return c.json({ id: idOf(link), workspace, session, title, kind, option });
});

answer.post("/", async (c) => {
  const link = await openLink(c);
  const { permission, option } = await pendingPermission(c, link);
  const { optionId } = option;
  const answered = await sessionOf(c, link).answerPermission(
    callerBy(link),
    requestOf(link),
    { optionId },
    "link",
  );
  if (!answered.ok) throw settled();
  if (!wantsJson(c)) return page(c, answeredPage(permission, option));
  return c.json({ id: idOf(link), outcome: { outcome: "selected", optionId } });
});

/** People get a page; whatever else goes wrong is told as everywhere. */
answer.onError((error, c) => {
  if (!(error instanceof HTTPException) || wantsJson(c)) throw error;
  return page(c, refusalPage(error.status, error.message), error.status);
});

/** A link that is good now. Before this nobody makes us ask an object. */
async function openLink(c: Context<AppEnv>): Promise<AnswerLink> {
  const link = await readAnswerLink(c.env, c.req.query("link") ?? "");
  if ("refused" in link) {
    if (link.refused === EXPIRED) throw new HTTPException(410, { message: "The link has expired" });
    throw unknownLink();
  }
  const caller = callerBy(link);
  if (await isRevoked(c.env, caller)) {
    c.executionCtx.waitUntil(noteRefusal(c.env, caller, "revoked link"));
    throw unknownLink();
  }
  if (!(await isOfKnownWebhook(c.env, link))) throw unknownLink();
  return link;
}

/** A webhook's links end with it. */
async function isOfKnownWebhook(env: Env, { webhook, tenant, workspace }: AnswerLink): Promise<boolean> {
  return webhook === undefined || workspaceObject(env, tenant, workspace).hasWebhook(webhook);
}

/** The permission request of a link, and the option that the link chooses. */
async function pendingPermission(
  c: Context<AppEnv>,
  link: AnswerLink,
): Promise<{ permission: PermissionSummary; option: PermissionOption }> {
  const summary = await sessionOf(c, link).permissionSummary(callerBy(link), requestOf(link));
  if (!summary.ok) throw settled();
  const option = summary.value.options.find(({ optionId }) => optionId === link.optionId);
  if (!option) throw unknownLink();
  return { permission: summary.value, option };
}

/** Who has the link may do what its maker could: in this one session, by the name of the link. */
function callerBy({ tenant, workspace, session, by, id, expires }: AnswerLink): Caller {
  const scopes = ["session:read", "permission:answer"] as const;
  return { tenant, subject: by, workspaces: [workspace], scopes, session, jti: id, expires };
}

function sessionOf(c: Context<AppEnv>, { tenant, session }: AnswerLink): DurableObjectStub<AcpSession> {
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

/** What was revoked looks as if it had never been. */
function unknownLink(): HTTPException {
  return new HTTPException(404, { message: "There is no such link: it was cut short, or taken back" });
}

function settled(): HTTPException {
  return new HTTPException(410, {
    message: "The request was answered or withdrawn, or its session is gone",
  });
}
