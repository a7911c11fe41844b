import { base64url, errors, jwtVerify, SignJWT } from "jose";
import { z } from "zod";
import { LIMITS } from "../protocol/limits.ts";
import type { PermissionOption } from "../protocol/permission.ts";
import type { Refused } from "./verify.ts";

/** One answer to one permission request, for whoever has the link. */
export type AnswerLink = {
  tenant: string;
  workspace: string;
  session: string;
  /** The request's place in the session's log. */
  seq: number;
  optionId: string;
  /** Whose right to answer it passes on. */
  by: string;
  /** The same for all links made at once: what they can be revoked by. */
  id: string;
  /** Seconds since the epoch. */
  expires: number;
  /** The webhook that made it, if one did. */
  webhook?: string | undefined;
};

/** An option of a request, and where it can be chosen. */
export type LinkedOption = PermissionOption & { url: string };

type Key = Pick<Env, "SECRETS_KEY">;

/**
 * A link for each option of a request, but for those whose ids are too long for a URL. Undefined: this gateway has no
 * SECRETS_KEY.
 */
export async function makeAnswerLinks(
  env: Key,
  origin: string,
  request: Omit<AnswerLink, "optionId">,
  options: readonly PermissionOption[],
): Promise<LinkedOption[] | undefined> {
  const linked: LinkedOption[] = [];
  const short = options.filter(({ optionId }) => optionId.length <= LIMITS.idChars);
  for (const option of short.slice(0, LIMITS.answerLinks)) {
    const link = await makeAnswerLink(env, { ...request, optionId: option.optionId });
    if (link === undefined) return undefined;
    linked.push({ ...option, url: answerUrl(origin, link) });
  }
  return linked;
}

/** Undefined: this gateway has no SECRETS_KEY. */
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

/** What a link of ours says; `expired` when it said so once, and otherwise why it is none. */
export async function readAnswerLink(env: Key, text: string): Promise<AnswerLink | Refused> {
  const key = await keyOf(env);
  if (!key) return { refused: "SECRETS_KEY is not set" };
  try {
    const { payload } = await jwtVerify(text, key, {
      algorithms: [ALGORITHM],
      typ: TYPE,
      audience: AUDIENCE,
      requiredClaims: ["exp"],
    });
    const { sub, jti, exp, ...answer } = CLAIMS.parse(payload);
    return { ...answer, by: sub, id: jti, expires: exp };
  } catch (error) {
    if (error instanceof errors.JWTExpired) return { refused: EXPIRED };
    if (error instanceof errors.JOSEError) return { refused: error.code };
    if (error instanceof z.ZodError) return { refused: z.prettifyError(error) };
    throw error;
  }
}

/** Why a link is refused that was good once. */
export const EXPIRED = "expired";

/** The link is in the query, which nothing logs. */
export function answerUrl(origin: string, link: string): string {
  return `${origin}/answer?link=${link}`;
}

/** Its own, so that nothing else made under SECRETS_KEY is ever taken for a link. */
async function keyOf({ SECRETS_KEY }: Key): Promise<CryptoKey | undefined> {
  if (!SECRETS_KEY) return undefined;
  const secret = await crypto.subtle.importKey("raw", base64url.decode(SECRETS_KEY), "HKDF", false, [
    "deriveKey",
  ]);
  return crypto.subtle.deriveKey(
    { name: "HKDF", hash: "SHA-256", salt: new Uint8Array(), info: new TextEncoder().encode(AUDIENCE) },
    secret,
    { name: "HMAC", hash: "SHA-256", length: 256 },
    false,
    ["sign", "verify"],
  );
}

const ALGORITHM = "HS256";
/** No access token has these, and tokens of this algorithm let nobody in. */
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
