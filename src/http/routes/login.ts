import { type Context, Hono } from "hono";
import { isShareToken } from "../../auth/share-token.ts";
import { verifyToken } from "../../auth/verify.ts";
import { callObject } from "../../durable/object-call.ts";
import { tenantObject } from "../../durable/objects.ts";
import { type Caller, isHost } from "../../protocol/caller.ts";
import { isoTime } from "../../protocol/iso-time.ts";
import { LOGIN_REQUEST, type LoggedIn } from "../../protocol/login.ts";
import { isSecureUrl } from "../../protocol/secure-url.ts";
import { clearRevocationCache } from "../../tenant/client/revocation-cache.ts";
import type { AppEnv } from "../app-env.ts";
import { parseBody } from "../input.ts";
import { failClosed, verifyCaller } from "../middleware/authentication.ts";
import { cookieToken, sessionCookie } from "../middleware/credential.ts";
import { originOf } from "../middleware/origin.ts";
import { RefusalException } from "../refusal-response.ts";

/** Keeps the token of the gateway's own page in a cookie, which no script can read. */
export const loginRoutes = new Hono<AppEnv>();

loginRoutes.post("/login", async (c) => {
  refuseOtherPages(c);
  const { token } = await parseBody(c, LOGIN_REQUEST);
  const { tenant, subject, workspaces, scopes, expires } = await logIn(c, token);
  const expiresAt = isoTime(expires * 1000);
  return c.json<LoggedIn>({ tenant, subject, workspaces, scopes, expiresAt });
});

loginRoutes.post("/logout", async (c) => {
  refuseOtherPages(c);
  setCookie(c, "", 0);
  await endLogin(c);
  return c.body(null, 204);
});

/** Ends the token in the cookie, so that a copy of the cookie is worth nothing. A link belongs to all its bearers. */
async function endLogin(c: Context<AppEnv>): Promise<void> {
  const token = cookieToken(c.req.raw);
  if (token === undefined || isShareToken(token)) return;
  const verified = await failClosed(() => verifyToken(c.env, token));
  if (!verified.ok) return;
  await callObject(
    () => tenantObject(c.env, verified.value.tenant),
    (tenant) => tenant.logOut(verified.value),
  );
  clearRevocationCache();
}

/** Verifies a token and keeps it in the cookie, until it expires. */
export async function logIn(c: Context<AppEnv>, token: string): Promise<Caller> {
  if (!isSecureUrl(c.req.url))
    throw new RefusalException({
      reason: "forbidden",
      message: "Log in over https: others could read the token",
    });
  const caller = await failClosed(() => verifyCaller(c, token));
  if (isHost(caller))
    throw new RefusalException({ reason: "forbidden", message: "A host's token cannot log in a person" });
  setCookie(c, token, Math.max(0, caller.expires - Math.floor(Date.now() / 1000)));
  return caller;
}

/** A page of another origin must not log people in or out. A program sends no origin, and has no cookies to lose. */
function refuseOtherPages(c: Context<AppEnv>): void {
  if (originOf(c.req.raw) === "foreign")
    throw new RefusalException({ reason: "forbidden", message: "Only a page of this gateway may do that" });
}

/** Strict: no page of another site needs to make requests as the user, and links to sessions carry their own token. */
function setCookie(c: Context<AppEnv>, value: string, maxAge: number): void {
  const secure = new URL(c.req.url).protocol === "https:" ? "; Secure" : "";
  c.header(
    "Set-Cookie",
    `${sessionCookie(c.req.url)}=${value}; Path=/; Max-Age=${maxAge}; HttpOnly; SameSite=Strict${secure}`,
    { append: true },
  );
}
