import { type Context, Hono } from "hono";
import { HTTPException } from "hono/http-exception";
import { z } from "zod";
import { isHost } from "../../protocol/caller.ts";
import type { AppEnv } from "../app-env.ts";
import { admit, failingClosed } from "../middleware/authentication.ts";
import { SESSION_COOKIE } from "../middleware/credential.ts";
import { originOf } from "../middleware/origin.ts";
import { parse } from "../params.ts";

/** The page keeps its token where no script can read it. */
export const login = new Hono<AppEnv>();

login.post("/login", async (c) => {
  refuseOtherPages(c);
  const { token } = parse(LOGIN, await c.req.json().catch(() => null));
  const caller = await failingClosed(() => admit(c, token));
  if (isHost(caller)) throw new HTTPException(403, { message: "The token of a host is for no person" });
  const { tenant, subject, workspaces, scopes, expires } = caller;
  setCookie(c, token, Math.max(0, expires - Math.floor(Date.now() / 1000)));
  const expiresAt = new Date(expires * 1000).toISOString();
  return c.json({ tenant, subject, workspaces, scopes, expiresAt });
});

login.post("/logout", (c) => {
  refuseOtherPages(c);
  setCookie(c, "", 0);
  return c.body(null, 204);
});

/** Another page must not log people in or out. A program has no cookies to lose. */
function refuseOtherPages(c: Context<AppEnv>): void {
  if (originOf(c.req.raw) === "foreign")
    throw new HTTPException(403, { message: "Only a page of this gateway may do that" });
}

function setCookie(c: Context<AppEnv>, value: string, maxAge: number): void {
  const secure = new URL(c.req.url).protocol === "https:" ? "; Secure" : "";
  c.header(
    "Set-Cookie",
    `${SESSION_COOKIE}=${value}; Path=/; Max-Age=${maxAge}; HttpOnly; SameSite=Strict${secure}`,
  );
}

/** A token goes into a header as it is. */
const LOGIN = z.object({
  token: z
    .string()
    .max(8192)
    .regex(/^[\w.-]+$/, "not a token"),
});
