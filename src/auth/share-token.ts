import { base64url } from "jose";
import type { Caller } from "../protocol/caller.ts";
import type { Refused } from "./verify.ts";

/** `acps_<tenant>.<secret>`: no JWT, so that it can be listed and taken back; its tenant knows what it is good for. */
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

export async function verifyShareToken(env: Env, token: string): Promise<Caller | Refused> {
  const tenant = tenantIn(token);
  if (tenant === undefined) return { refused: "not a link of ours" };
  const bearer = await env.TENANT_DO.getByName(tenant).sharedWith(await hashOf(token));
  return bearer ?? { refused: "the link is good no more" };
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

/** A secret of that length needs no salt. */
export async function hashOf(token: string): Promise<string> {
  const digest = await crypto.subtle.digest("SHA-256", new TextEncoder().encode(token));
  return base64url.encode(new Uint8Array(digest));
}
