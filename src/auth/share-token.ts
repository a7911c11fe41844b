import { base64url } from "jose";
import { callObject } from "../durable/object-call.ts";
import { tenantObject } from "../durable/objects.ts";
import type { Caller } from "../protocol/caller.ts";
import { accepted, type Result, refused } from "../protocol/refusal.ts";
import { type SecretsVars, signingKeys } from "./derived-keys.ts";
import type { TokenRefusal } from "./token-refusal.ts";

/**
 * The token of a share link: `acps_<tenant>.<expiry>.<secret>.<signature>`. Its tenant keeps what the link allows, so
 * links can be listed and revoked. The Worker checks signature and expiry first: a made-up token reaches no object.
 */
const PREFIX = "acps_";
const SECRET_BYTES = 32;
/** The last part signs the parts before it. */
const FORM = /^(acps_([\w-]{1,1100})\.([0-9a-z]{1,11})\.[\w-]{43})\.([\w-]{43})$/;
const LABEL = "acp-edge/share-link";

/** `expires` is in milliseconds since the epoch. Undefined when this gateway has no SECRETS_KEY. */
export async function makeShareToken(
  env: SecretsVars,
  tenant: string,
  expires: number,
): Promise<string | undefined> {
  const [key] = await signingKeys(env, LABEL);
  if (!key) return undefined;
  const secret = base64url.encode(crypto.getRandomValues(new Uint8Array(SECRET_BYTES)));
  const text = `${PREFIX}${base64url.encode(bytesOf(tenant))}.${expires.toString(36)}.${secret}`;
  const signature = await crypto.subtle.sign("HMAC", key, bytesOf(text));
  return `${text}.${base64url.encode(new Uint8Array(signature))}`;
}

export function isShareToken(token: string): boolean {
  return token.startsWith(PREFIX);
}

export async function verifyShareToken(env: Env, token: string): Promise<Result<Caller, TokenRefusal>> {
  const tenant = await signedTenant(env, token, Date.now());
  if (tenant === undefined) return refused({ reason: "invalid or expired share token" });
  const hash = await hashOf(token);
  const bearer = await callObject(
    () => tenantObject(env, tenant),
    (object) => object.shareBearer(hash),
  );
  return bearer ? accepted(bearer) : refused({ reason: "unknown or revoked share token" });
}

/** The tenant of a token that this gateway has signed and that has not expired. */
async function signedTenant(env: SecretsVars, token: string, now: number): Promise<string | undefined> {
  const [, text, tenant, expiry, signature] = FORM.exec(token) ?? [];
  if (text === undefined || tenant === undefined || expiry === undefined || signature === undefined)
    return undefined;
  if (Number.parseInt(expiry, 36) <= now) return undefined;
  const signed = { text: bytesOf(text), signature: new Uint8Array(base64url.decode(signature)) };
  for (const key of await signingKeys(env, LABEL))
    if (await crypto.subtle.verify("HMAC", key, signed.signature, signed.text))
      return new TextDecoder().decode(base64url.decode(tenant));
  return undefined;
}

/** Tenants store only the hash. The secret is random and long, so the hash needs no salt. */
export async function hashOf(token: string): Promise<string> {
  const digest = await crypto.subtle.digest("SHA-256", bytesOf(token));
  return base64url.encode(new Uint8Array(digest));
}

function bytesOf(text: string): Uint8Array<ArrayBuffer> {
  return new Uint8Array(new TextEncoder().encode(text));
}
