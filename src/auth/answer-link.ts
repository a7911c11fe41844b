import { errors, jwtVerify, SignJWT } from "jose";
import { z } from "zod";
import type { Limits } from "../protocol/limits.ts";
import type { Maker } from "../protocol/maker.ts";
import type { PermissionOption } from "../protocol/permission.ts";
import { accepted, type Result, refused } from "../protocol/refusal.ts";
import type { LinkedOption } from "../protocol/rest.ts";
import { type SecretsVars, signingKeys } from "./derived-keys.ts";

/** A link whose bearer may answer one request of an agent, once: a permission request with one option, or a question. */
export type AnswerLink = {
  tenant: string;
  workspace: string;
  session: string;
  /** The request's event in the session's log. */
  seq: number;
  /** The option that the link chooses. A link to a question has none: its bearer fills in the form. */
  optionId?: string | undefined;
  /** The subject in whose name the link answers: its maker, or the webhook that sent it. */
  by: string;
  /** Whose right to answer the link passes on. The link ends when its maker is revoked. */
  maker: Maker;
  /** Shared by all links made together, so that they can be revoked together. */
  id: string;
  /** Seconds since the epoch. */
  expires: number;
  /** The webhook that sent the link. The link ends with the webhook. */
  webhook?: string | undefined;
};

/**
 * Makes a link for each option of a request, except options whose ids are too long for a URL. Undefined when this
 * gateway has no SECRETS_KEY.
 */
export async function makeAnswerLinks(
  env: SecretsVars,
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

/** Makes the link to a question. Undefined when this gateway has no SECRETS_KEY. */
export async function makeQuestionLink(
  env: SecretsVars,
  origin: string,
  request: Omit<AnswerLink, "optionId">,
): Promise<string | undefined> {
  const link = await makeAnswerLink(env, request);
  return link === undefined ? undefined : answerUrl(origin, link);
}

/** Undefined when this gateway has no SECRETS_KEY. */
export async function makeAnswerLink(env: SecretsVars, link: AnswerLink): Promise<string | undefined> {
  const [key] = await signingKeys(env, AUDIENCE);
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

export async function readAnswerLink(
  env: SecretsVars,
  text: string,
): Promise<Result<AnswerLink, LinkRefusal>> {
  for (const key of await signingKeys(env, AUDIENCE)) {
    const read = await readSignedBy(key, text);
    if (read.ok || read.refusal === "expired") return read;
  }
  return refused("invalid");
}

async function readSignedBy(key: CryptoKey, text: string): Promise<Result<AnswerLink, LinkRefusal>> {
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

const ALGORITHM = "HS256";
/** Access tokens have another audience and type, and no issuer may use a symmetric algorithm. */
const AUDIENCE = "acp-edge/answer-link";
const TYPE = "acp-edge-answer+jwt";

const CLAIMS = z.object({
  tenant: z.string(),
  workspace: z.string(),
  session: z.uuid(),
  seq: z.int(),
  optionId: z.string().optional(),
  sub: z.string(),
  jti: z.string(),
  exp: z.number(),
  webhook: z.string().optional(),
  maker: z.object({ subject: z.string(), jti: z.string().nullable(), workspace: z.string().nullable() }),
});
