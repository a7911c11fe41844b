import { Hono } from "hono";
import { HTTPException } from "hono/http-exception";
import { z } from "zod";
import { makeAnswerLinks } from "../../auth/answer-link.ts";
import { listPermissions } from "../../index/permission-index.ts";
import type { Caller } from "../../protocol/caller.ts";
import { parseClientRequestId } from "../../protocol/ids.ts";
import { LIMITS } from "../../protocol/limits.ts";
import { unknownPermission } from "../../protocol/refusal.ts";
import { redactedOptions } from "../../session/core/read/redaction/redaction.ts";
import { audit } from "../../tenant/client/audit.ts";
import type { AppEnv } from "../app-env.ts";
import { requireScope } from "../middleware/authentication.ts";
import { parse, sessionOf } from "../params.ts";
import { RefusalException, unwrap } from "../refusal-response.ts";

/** Permissions that wait, across the caller's sessions, and answers to them with nobody attached. */
export const permissions = new Hono<AppEnv>();

permissions.get("/permissions", async (c) => {
  const { limit, cursor } = parse(QUERY, c.req.query());
  const caller = c.get("caller");
  const { permissions: pending, nextCursor } = await listPermissions(c.env.INDEX, caller, limit, cursor);
  return c.json({
    permissions: pending.map(({ options, ...permission }) => ({
      ...permission,
      options: options === null ? null : optionsFor(caller, options),
    })),
    nextCursor,
  });
});

permissions.post("/permissions/:id", requireScope("permission:answer"), async (c) => {
  const id = c.req.param("id");
  const target = parseClientRequestId(id);
  if (!target) throw new RefusalException(unknownPermission(id));
  const { optionId } = parse(ANSWER, await c.req.json().catch(() => null));
  const session = sessionOf(c, target.sessionId);
  unwrap(await session.answerPermission(c.get("caller"), target, { optionId }, "rest"));
  return c.json({ id, outcome: { outcome: "selected", optionId } });
});

/** A link for each answer, so that it can be given by whoever gets the link; see answer.ts. */
permissions.post(
  "/permissions/:id/links",
  requireScope("share"),
  requireScope("permission:answer"),
  async (c) => {
    const permission = c.req.param("id");
    const target = parseClientRequestId(permission);
    if (!target) throw new RefusalException(unknownPermission(permission));
    const body = (await c.req.text()) === "" ? {} : await c.req.json().catch(() => null);
    const { expiresIn } = parse(linksOrder(), body);
    const { sessionId: session, seq } = target;
    const caller = c.get("caller");
    const { workspace, options } = unwrap(await sessionOf(c, session).permissionSummary(caller, target));
    const { tenant, subject } = caller;
    const id = crypto.randomUUID();
    const expires = Math.floor(Date.now() / 1000) + expiresIn;
    const { origin } = new URL(c.req.url);
    const request = { tenant, workspace, session, seq, by: subject, id, expires };
    const links = await makeAnswerLinks(c.env, origin, request, options);
    if (!links)
      throw new HTTPException(501, { message: "This gateway makes no such links: SECRETS_KEY is not set" });
    const expiresAt = new Date(expires * 1000).toISOString();
    const detail = { id, request: seq, expiresAt };
    await audit(c.env, tenant, { kind: "link.made", subject, workspace, session, detail });
    return c.json({ id, permission, expiresAt, links }, 201);
  },
);

function optionsFor({ redacted }: Caller, options: string): unknown {
  return JSON.parse(redacted ? redactedOptions(options) : options);
}

const QUERY = z.object({
  state: z.literal("pending").default("pending"),
  limit: z.coerce.number().int().min(1).max(200).default(50),
  cursor: z.string().max(500).optional(),
});
const ANSWER = z.object({ optionId: z.string().max(1024) });

/** Read when it is needed: a deployment may set other limits. */
function linksOrder() {
  const { answerLinkSeconds, answerLinkMaxSeconds } = LIMITS;
  return z.strictObject({ expiresIn: z.int().min(1).max(answerLinkMaxSeconds).default(answerLinkSeconds) });
}
