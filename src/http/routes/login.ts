import { type Context, Hono } from "hono";
import { isHost } from "../../protocol/caller.ts";
import { isoTime } from "../../protocol/iso-time.ts";
import { LOGIN_REQUEST, type LoggedIn } from "../../protocol/rest.ts";
import type { AppEnv } from "../app-env.ts";
import { parseBody } from "../input.ts";
import { failClosed, verifyCaller } from "../middleware/authentication.ts";
import { SESSION_COOKIE } from "../middleware/credential.ts";
import { originOf } from "../middleware/origin.ts";
import { RefusalException } from "../refusal-response.ts";

/** Keeps the token of the gateway's own page in a cookie, which no script can read. */
export const loginRoutes = new Hono<AppEnv>();

loginRoutes.post("/login", async (c) => {
  refuseOtherPages(c);
  const { token } = await parseBody(c, LOGIN_REQUEST);
  const caller = await failClosed(() => verifyCaller(c, token));
  if (isHost(caller))
    throw new RefusalException({ reason: "forbidden", message: "A host's token cannot log in a person" });
  const { tenant, subject, workspaces, scopes, expires } = caller;
  setCookie(c, token, Math.max(0, expires - Math.floor(Date.now() / 1000)));
  const expiresAt = isoTime(expires * 1000);
  return c.json<LoggedIn>({ tenant, subject, workspaces, scopes, expiresAt });
});

loginRoutes.post("/logout", (c) => {
  refuseOtherPages(c);
  setCookie(c, "", 0);
  return c.body(null, 204);
});

/** A page of another origin must not log people in or out. A program sends no origin, and has no cookies to lose. */
function refuseOtherPages(c: Context<AppEnv>): void {
  if (originOf(c.req.raw) === "foreign")
    throw new RefusalException({ reason: "forbidden", message: "Only a page of this gateway may do that" });
}

function setCookie(c: Context<AppEnv>, value: string, maxAge: number): void {
  const secure = new URL(c.req.url).protocol === "https:" ? "; Secure" : "";
  c.header(
    "Set-Cookie",
    `${SESSION_COOKIE}=${value}; Path=/; Max-Age=${maxAge}; HttpOnly; SameSite=Strict${secure}`,
  );
}
