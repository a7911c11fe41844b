import { base64url } from "jose";
import type { Caller } from "../protocol/caller.ts";
import { accepted, type Result, refused } from "../protocol/refusal.ts";
import type { TokenRefusal } from "./token-refusal.ts";

/**
 * The token of a share link: `acps_<tenant>.<secret>`. It is no JWT: its tenant keeps what the link allows, so links
 * can be listed and revoked.
 */
const PREFIX = "acps_";
const SECRET_BYTES = 32;
const FORM = /^acps_([\w-]{1,1100})\.([\w-]{43})$/;

export function makeShareToken(tenant: string): string {
  const secret = base64url.encode(crypto.getRandomValues(new Uint8Array(SECRET_BYTES)));
  return `${PREFIX}${base64url.encode(new TextEncoder().encode(tenant))}.${secret}`;
}

export function isShareToken(token: string): boolean {
  return token.startsWith(PREFIX);
}

export async function verifyShareToken(env: Env, token: string): Promise<Result<Caller, TokenRefusal>> {
  const tenant = tenantIn(token);
  if (tenant === undefined) return refused({ reason: "malformed share token" });
  const bearer = await env.TENANT_DO.getByName(tenant).shareBearer(await hashOf(token));
  return bearer ? accepted(bearer) : refused({ reason: "unknown or expired share token" });
}

function tenantIn(token: string): string | undefined {
  const [, encoded] = FORM.exec(token) ?? [];
  if (encoded === undefined) return undefined;
  try {
    const tenant = new TextDecoder("utf-8", { fatal: true, ignoreBOM: false }).decode(
      base64url.decode(encoded),
    );
    return tenant !== "" && tenant.length <= 200 && !tenant.includes("/") ? tenant : undefined;
  } catch {
    return undefined;
  }
}

/** Tenants store only the hash. The secret is random and long, so the hash needs no salt. */
export async function hashOf(token: string): Promise<string> {
  const digest = await crypto.subtle.digest("SHA-256", new TextEncoder().encode(token));
  return base64url.encode(new Uint8Array(digest));
}
