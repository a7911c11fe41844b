import { base64url, errors, jwtVerify, SignJWT } from "jose";
import { z } from "zod";
import type { Limits } from "../protocol/limits.ts";
import type { PermissionOption } from "../protocol/permission.ts";
import { accepted, type Result, refused } from "../protocol/refusal.ts";
import type { LinkedOption } from "../protocol/rest.ts";

/** A link whose bearer may give one answer to one permission request. */
export type AnswerLink = {
  tenant: string;
  workspace: string;
  session: string;
  /** The request's event in the session's log. */
  seq: number;
  optionId: string;
  /** The subject whose right to answer the link passes on. */
  by: string;
  /** Shared by all links made together, so that they can be revoked together. */
  id: string;
  /** Seconds since the epoch. */
  expires: number;
  /** The webhook that sent the link. The link ends with the webhook. */
  webhook?: string | undefined;
};

type Key = { SECRETS_KEY?: string };

/**
 * Makes a link for each option of a request, except options whose ids are too long for a URL. Undefined when this
 * gateway has no SECRETS_KEY.
 */
export async function makeAnswerLinks(
  env: Key,
  origin: string,
  request: Omit<AnswerLink, "optionId">,
  options: readonly PermissionOption[],
  { idChars, answerLinks }: Pick<Limits, "idChars" | "answerLinks">,
): Promise<LinkedOption[] | undefined> {
  const linked: LinkedOption[] = [];
  const short = options.filter(({ optionId }) => optionId.length <= idChars);
  for (const option of short.slice(0, answerLinks)) {
    const link = await makeAnswerLink(env, { ...request, optionId: option.optionId });
    if (link === undefined) return undefined;
    linked.push({ ...option, url: answerUrl(origin, link) });
  }
  return linked;
}

/** Undefined when this gateway has no SECRETS_KEY. */
export async function makeAnswerLink(env: Key, link: AnswerLink): Promise<string | undefined> {
  const key = await keyOf(env);
  if (!key) return undefined;
  const { by, id, expires, ...answer } = link;
  return new SignJWT(answer)
    .setProtectedHeader({ alg: ALGORITHM, typ: TYPE })
    .setAudience(AUDIENCE)
    .setSubject(by)
    .setJti(id)
    .setExpirationTime(expires)
    .sign(key);
}

/** An expired link was valid once; every other invalid link is not one of ours. */
export type LinkRefusal = "expired" | "invalid";

export async function readAnswerLink(env: Key, text: string): Promise<Result<AnswerLink, LinkRefusal>> {
  const key = await keyOf(env);
  if (!key) return refused("invalid");
  try {
    const { payload } = await jwtVerify(text, key, {
      algorithms: [ALGORITHM],
      typ: TYPE,
      audience: AUDIENCE,
      requiredClaims: ["exp"],
    });
    const { sub, jti, exp, ...answer } = CLAIMS.parse(payload);
    return accepted({ ...answer, by: sub, id: jti, expires: exp });
  } catch (error) {
    if (error instanceof errors.JWTExpired) return refused("expired");
    if (error instanceof errors.JOSEError || error instanceof z.ZodError) return refused("invalid");
    throw error;
  }
}

/** The link is in the query, because no component logs queries. */
export function answerUrl(origin: string, link: string): string {
  return `${origin}/answer?link=${link}`;
}

/** Derives a key for links only, so that no other use of SECRETS_KEY can produce a valid link. */
async function keyOf({ SECRETS_KEY }: Key): Promise<CryptoKey | undefined> {
  if (!SECRETS_KEY) return undefined;
  const secret = await crypto.subtle.importKey(
    "raw",
    new Uint8Array(base64url.decode(SECRETS_KEY)),
    "HKDF",
    false,
    ["deriveKey"],
  );
  return crypto.subtle.deriveKey(
    { name: "HKDF", hash: "SHA-256", salt: new Uint8Array(), info: new TextEncoder().encode(AUDIENCE) },
    secret,
    { name: "HMAC", hash: "SHA-256", length: 256 },
    false,
    ["sign", "verify"],
  );
}

const ALGORITHM = "HS256";
/** Access tokens have another audience and type, and no issuer may use a symmetric algorithm. */
const AUDIENCE = "acp-edge/answer-link";
const TYPE = "acp-edge-answer+jwt";

const CLAIMS = z.object({
  tenant: z.string(),
  workspace: z.string(),
  session: z.uuid(),
  seq: z.int(),
  optionId: z.string(),
  sub: z.string(),
  jti: z.string(),
  exp: z.number(),
  webhook: z.string().optional(),
});
