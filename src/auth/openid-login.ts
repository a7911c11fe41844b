import {
  allowInsecureRequests,
  authorizationCodeGrant,
  buildAuthorizationUrl,
  type Configuration,
  calculatePKCECodeChallenge,
  discovery,
  None,
  randomNonce,
  randomPKCECodeVerifier,
  randomState,
} from "openid-client";
import { type AuthVars, type Issuer, issuersOf } from "./issuers.ts";

/** An OpenID provider at which people log in. Its tokens are verified like all tokens of its issuer. */
export type LoginProvider = Pick<Issuer, "issuer"> & NonNullable<Issuer["login"]> & { name: string };

export function loginProviders(env: AuthVars): LoginProvider[] {
  return issuersOf(env).flatMap(({ issuer, login }) =>
    login ? [{ issuer, ...login, name: login.name ?? new URL(issuer).hostname }] : [],
  );
}

/**
 * A login that a browser has begun. The browser keeps these values in a cookie: a response that another browser began is
 * refused, so nobody can be logged in as somebody else.
 */
export type PendingLogin = {
  readonly provider: string;
  readonly state: string;
  readonly nonce: string;
  /** The secret half of the PKCE challenge. A stolen code is useless without it. */
  readonly verifier: string;
  /** The path to show after the login. */
  readonly to: string;
};

export async function beginLogin(
  provider: LoginProvider,
  redirectUri: string,
  to: string,
): Promise<{ url: URL; pending: PendingLogin }> {
  const config = await configurationOf(provider);
  const pending = {
    provider: provider.name,
    state: randomState(),
    nonce: randomNonce(),
    verifier: randomPKCECodeVerifier(),
    to,
  };
  const url = buildAuthorizationUrl(config, {
    redirect_uri: redirectUri,
    response_type: "code",
    scope: provider.scopes.join(" "),
    state: pending.state,
    nonce: pending.nonce,
    code_challenge: await calculatePKCECodeChallenge(pending.verifier),
    code_challenge_method: "S256",
  });
  return { url, pending };
}

/** Exchanges the code in the provider's response for a token. Throws when the provider or the checks refuse. */
export async function finishLogin(
  provider: LoginProvider,
  response: URL,
  { state, nonce, verifier }: PendingLogin,
): Promise<string> {
  const config = await configurationOf(provider);
  const tokens = await authorizationCodeGrant(config, response, {
    expectedState: state,
    expectedNonce: nonce,
    pkceCodeVerifier: verifier,
    idTokenExpected: true,
  });
  const token = provider.token === "id" ? tokens.id_token : tokens.access_token;
  if (token === undefined) throw new Error("the provider sent no id token");
  return token;
}

/** The published configuration of providers, per isolate. A provider that is asked again is asked once an hour. */
const known = new Map<string, { config: Configuration; until: number }>();
const MAX_AGE_MS = 3_600_000;

async function configurationOf({ issuer, clientId, clientSecret }: LoginProvider): Promise<Configuration> {
  const key = JSON.stringify([issuer, clientId, clientSecret]);
  const found = known.get(key);
  if (found && Date.now() < found.until) return found.config;
  const config = await discovery(
    new URL(issuer),
    clientId,
    clientSecret,
    // A public client proves itself by PKCE alone.
    clientSecret === undefined ? None() : undefined,
    { timeout: DISCOVERY_SECONDS, ...(issuer.startsWith("http:") && { execute: [allowInsecureRequests] }) },
  );
  known.set(key, { config, until: Date.now() + MAX_AGE_MS });
  return config;
}

const DISCOVERY_SECONDS = 10;
