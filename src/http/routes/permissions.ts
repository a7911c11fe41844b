import { type Context, Hono } from "hono";
import { makeAnswerLinks } from "../../auth/answer-link.ts";
import { listPermissions } from "../../index/permission-index.ts";
import type { Caller } from "../../protocol/caller.ts";
import { type AgentRequest, parseClientRequestId } from "../../protocol/ids.ts";
import { isoTime } from "../../protocol/iso-time.ts";
import { makerOf } from "../../protocol/maker.ts";
import { type PermissionOption, redactOptions } from "../../protocol/permission.ts";
import { unknownPermission } from "../../protocol/refusal.ts";
import {
  type AnsweredPermission,
  type AnswerLinks,
  answerLinksRequest,
  PERMISSION_ANSWER,
  PERMISSIONS_QUERY,
  type PermissionList,
  type PermissionRequest,
} from "../../protocol/rest.ts";
import type { AppEnv } from "../app-env.ts";
import { parse, parseBody, parseQuery } from "../input.ts";
import { requireScope } from "../middleware/authentication.ts";
import { RefusalException, unwrap } from "../refusal-response.ts";
import { askSession, askTenant, sessionOf } from "../targets.ts";

/** Permission requests that wait in the caller's sessions, and answers to them from outside a connection. */
export const permissionRoutes = new Hono<AppEnv>();

permissionRoutes.get("/permissions", async (c) => {
  const { limit, cursor } = parseQuery(c, PERMISSIONS_QUERY);
  const caller = c.get("caller");
  const { permissions: pending, nextCursor } = await listPermissions(c.env.INDEX, caller, limit, cursor);
  const permissions = pending.map(({ options, ...permission }) => ({
    ...permission,
    options: options === null ? null : optionsFor(caller, options),
  }));
  return c.json<PermissionList>({ permissions, nextCursor });
});

/** All that a request asks for. Tool data is for those who may answer. */
permissionRoutes.get("/permissions/:id", requireScope("permission:answer"), async (c) => {
  const request = requestOf(c);
  const caller = c.get("caller");
  const { sessionId } = request;
  const summary = unwrap(
    await askSession(c, sessionId, (session) => session.permissionSummary(caller, request)),
  );
  return c.json<PermissionRequest>({ id: c.req.param("id"), sessionId, ...summary });
});

permissionRoutes.post("/permissions/:id", requireScope("permission:answer"), async (c) => {
  const id = c.req.param("id");
  const request = requestOf(c);
  const { optionId } = await parseBody(c, PERMISSION_ANSWER);
  const session = sessionOf(c, request.sessionId);
  unwrap(await session.answerPermission(c.get("caller"), request, { optionId }, "rest"));
  return c.json<AnsweredPermission>({ id, outcome: { outcome: "selected", optionId } });
});

/** Makes a link for each option. Whoever opens the link may choose the option, see answer-link/. */
permissionRoutes.post(
  "/permissions/:id/links",
  requireScope("share"),
  requireScope("permission:answer"),
  async (c) => {
    const { sessionId: session, seq } = requestOf(c);
    const body = (await c.req.text()) === "" ? {} : await c.req.json().catch(() => null);
    const { expiresIn } = parse(answerLinksRequest(c.get("limits")), body);
    const caller = c.get("caller");
    const { tenant, subject } = caller;
    const { workspace, options } = unwrap(
      await askSession(c, session, (object) => object.permissionSummary(caller, { sessionId: session, seq })),
    );
    const id = crypto.randomUUID();
    const expires = Math.floor(Date.now() / 1000) + expiresIn;
    const { origin } = new URL(c.req.url);
    const link = { tenant, workspace, session, seq, by: subject, maker: makerOf(caller), id, expires };
    const links = await makeAnswerLinks(c.env, origin, link, options, c.get("limits"));
    if (!links) throw noLinks();
    const registration = { id, session, workspace, seq, expires: expires * 1000 };
    unwrap(await askTenant(c, (object) => object.registerAnswerLinks(caller, registration)));
    const expiresAt = isoTime(expires * 1000);
    return c.json<AnswerLinks>({ id, permission: c.req.param("id"), expiresAt, links }, 201);
  },
);

function requestOf(c: Context<AppEnv, "/permissions/:id">): AgentRequest {
  const id = c.req.param("id");
  const request = parseClientRequestId(id);
  if (!request) throw new RefusalException(unknownPermission(id));
  return request;
}

/** The agent's options as the index keeps them, without the parts that a redacted caller may not see. */
function optionsFor({ redacted }: Caller, options: string): PermissionOption[] {
  return JSON.parse(redacted ? redactOptions(options) : options) as PermissionOption[];
}

export function noLinks(): RefusalException {
  const message = "This gateway makes no answer links: SECRETS_KEY is not set";
  return new RefusalException({ reason: "not-configured", message });
}
