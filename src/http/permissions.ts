import { Hono } from "hono";
import { HTTPException } from "hono/http-exception";
import { z } from "zod";
import { parseClientRequestId } from "../protocol/ids.ts";
import { type AppEnv, requireScope } from "./auth.ts";
import { parse, sessionOf } from "./params.ts";
import { listPermissions } from "./permission-index.ts";

/** Permissions that wait, across the caller's sessions, and answers to them with nobody attached. */
export const permissions = new Hono<AppEnv>();

permissions.get("/permissions", async (c) => {
  const { limit, cursor } = parse(QUERY, c.req.query());
  return c.json(await listPermissions(c.env.INDEX, c.get("caller"), limit, cursor));
});

permissions.post("/permissions/:id", requireScope("permission:answer"), async (c) => {
  const id = c.req.param("id");
  const target = parseClientRequestId(id);
  if (!target) throw notPending();
  const { optionId } = parse(ANSWER, await c.req.json().catch(() => null));
  const session = sessionOf(c, target.sessionId);
  const caller = c.get("caller");
  const result = await session.answerPermission(caller, target.seq, { optionId }, "rest");
  if (result === "unknown") throw notPending();
  if (result === "answered") return c.json({ id, outcome: { outcome: "selected", optionId } });
  const options = await session.permissionOptions(caller, target.seq);
  if (!options) throw notPending();
  const message = `There is no option ${JSON.stringify(optionId)}`;
  return c.json({ error: { code: "bad_option", message, options } }, 400);
});

/** What is settled, what never was and what belongs to others: there is nothing here to answer. */
function notPending(): HTTPException {
  return new HTTPException(404, { message: "No such permission is pending" });
}

const QUERY = z.object({
  state: z.literal("pending").default("pending"),
  limit: z.coerce.number().int().min(1).max(200).default(50),
  cursor: z.string().max(500).optional(),
});
const ANSWER = z.object({ optionId: z.string().max(1024) });
