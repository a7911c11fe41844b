import { type Context, Hono } from "hono";
import { deleteCookie, getCookie, setCookie } from "hono/cookie";
import { html } from "hono/html";
import { HTTPException } from "hono/http-exception";
import type { CookieOptions } from "hono/utils/cookie";
import { z } from "zod";
import {
  beginLogin,
  finishLogin,
  type LoginProvider,
  loginProviders,
  type PendingLogin,
} from "../../auth/openid-login.ts";
import { SCOPES } from "../../protocol/caller.ts";
import type { LoginProviders } from "../../protocol/login.ts";
import type { AppEnv } from "../app-env.ts";
import { failClosed } from "../middleware/authentication.ts";
import { RefusalException } from "../refusal-response.ts";
import { page } from "./answer-link/page.ts";
import { logIn } from "./login.ts";

/** Login of people at an OpenID provider, by an authorization code with PKCE. The gateway stores nothing of a login. */
export const openidLoginRoutes = new Hono<AppEnv>();

openidLoginRoutes.get("/api/login", async (c) => {
  const providers = await configured(c);
  return c.json<LoginProviders>({
    providers: providers.map(({ name, issuer, scopes, token, ...client }) => ({
      name,
      issuer,
      url: `${publicOrigin(c)}/login?with=${encodeURIComponent(name)}`,
      commandClientId: client.commandClientId ?? (client.clientSecret === undefined ? client.clientId : null),
      scopes,
      token,
    })),
  });
});

/** Tells OAuth clients where tokens for this gateway come from (RFC 9728). */
openidLoginRoutes.get("/.well-known/oauth-protected-resource", async (c) => {
  const providers = await configured(c);
  return c.json({
    resource: publicOrigin(c),
    authorization_servers: providers.map(({ issuer }) => issuer),
    scopes_supported: SCOPES,
    bearer_methods_supported: ["header"],
  });
});

openidLoginRoutes.get("/login", async (c) => {
  const providers = await configured(c);
  const name = c.req.query("with") ?? (providers.length === 1 ? providers[0]?.name : undefined);
  const to = ownPath(c, c.req.query("to"));
  const provider = providers.find((one) => one.name === name);
  if (!provider) return choicePage(c, providers, to);
  const begun = await orUndefined(c, provider, () => beginLogin(provider, callbackUri(c), to));
  if (!begun) throw unavailable(provider);
  setCookie(c, PENDING_COOKIE, JSON.stringify(begun.pending), {
    ...pendingCookie(c),
    maxAge: PENDING_SECONDS,
  });
  return c.redirect(begun.url.href);
});

openidLoginRoutes.get("/login/callback", async (c) => {
  const pending = readPending(c);
  deleteCookie(c, PENDING_COOKIE, pendingCookie(c));
  const provider = (await configured(c)).find(({ name }) => name === pending?.provider);
  if (!pending || !provider)
    return failurePage(c, 400, "This browser has begun no login, or it began one too long ago");
  const response = new URL(`${callbackUri(c)}${new URL(c.req.url).search}`);
  const token = await orUndefined(c, provider, () => finishLogin(provider, response, pending));
  if (token === undefined) return failurePage(c, 403, `${provider.name} did not confirm the login`);
  try {
    await logIn(c, token);
  } catch (error) {
    if (!(error instanceof HTTPException) || error.status >= 500) throw error;
    return failurePage(c, 403, `Your account at ${provider.name} has no access to this gateway`);
  }
  // A browser does not send a SameSite=Strict cookie along a redirect that another site began; a page of ours may.
  c.header("Refresh", `0; url=${pending.to}`);
  return page(c, {
    title: "Logged in",
    body: html`<h1>Logged in</h1><p><a href="${pending.to}">Continue</a></p>`,
  });
});

function configured(c: Context<AppEnv>): Promise<LoginProvider[]> {
  return failClosed(async () => loginProviders(c.env));
}

/** The provider's failures are logged without their details, which may contain codes and tokens. */
async function orUndefined<T>(
  c: Context<AppEnv>,
  { issuer }: LoginProvider,
  work: () => Promise<T>,
): Promise<T | undefined> {
  try {
    return await work();
  } catch (error) {
    const { name, code } = error as { name?: string; code?: string };
    console.error("a login failed at its provider", { issuer, path: c.req.path, error: name, code });
    return undefined;
  }
}

const PENDING_COOKIE = "acp_edge_login";
const PENDING_SECONDS = 600;

/** The provider sends the browser back from its own site, so the cookie is not limited to same-site requests. */
function pendingCookie(c: Context<AppEnv>): CookieOptions {
  const options = { path: "/", httpOnly: true, sameSite: "Lax" } as const;
  return isHttps(c) ? { ...options, secure: true, prefix: "host" } : options;
}

const PENDING = z.strictObject({
  provider: z.string(),
  state: z.string(),
  nonce: z.string(),
  verifier: z.string(),
  to: z.string(),
}) satisfies z.ZodType<PendingLogin>;

function readPending(c: Context<AppEnv>): PendingLogin | undefined {
  const text = isHttps(c) ? getCookie(c, PENDING_COOKIE, "host") : getCookie(c, PENDING_COOKIE);
  try {
    const pending = PENDING.parse(JSON.parse(text ?? ""));
    return { ...pending, to: ownPath(c, pending.to) };
  } catch {
    return undefined;
  }
}

function isHttps(c: Context<AppEnv>): boolean {
  return new URL(c.req.url).protocol === "https:";
}

/** The address that people use, which a proxy may hide from the Worker. */
function publicOrigin(c: Context<AppEnv>): string {
  return new URL(c.env.PUBLIC_URL || c.req.url).origin;
}

function callbackUri(c: Context<AppEnv>): string {
  return `${publicOrigin(c)}/login/callback`;
}

/** A path of this gateway. An address elsewhere becomes `/`, so a login never leads to a stranger's page. */
function ownPath(c: Context<AppEnv>, text = "/"): string {
  const origin = publicOrigin(c);
  const url = URL.canParse(text, origin) ? new URL(text, origin) : undefined;
  if (url?.origin !== origin || text.length > MAX_PATH) return "/";
  // `/.//host` is a path whose normal form, `//host`, is an address elsewhere.
  return `/${url.pathname.replace(/^[/\\]+/, "")}${url.search}${url.hash}`;
}

const MAX_PATH = 2048;

function choicePage(c: Context<AppEnv>, providers: readonly LoginProvider[], to: string) {
  if (providers.length === 0)
    throw new RefusalException({ reason: "not-found", message: "This gateway has no login at a provider" });
  const query = `to=${encodeURIComponent(to)}`;
  return page(c, {
    title: "Log in",
    body: html`<h1>Log in</h1>
      ${providers.map(({ name }) => html`<p><a href="/login?with=${encodeURIComponent(name)}&${query}">${name}</a></p>`)}`,
  });
}

function failurePage(c: Context<AppEnv>, status: 400 | 403, message: string) {
  return page(
    c,
    {
      title: "Not logged in",
      body: html`<h1>Not logged in</h1><p>${message}.</p><p><a href="/login">Try again</a></p>`,
    },
    status,
  );
}

function unavailable({ name }: LoginProvider): RefusalException {
  return new RefusalException({ reason: "unavailable", message: `${name} does not answer` });
}
