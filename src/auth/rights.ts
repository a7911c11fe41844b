import type { JWTPayload } from "jose";
import { z } from "zod";
import { type Caller, hostTokenProblem, isScope } from "../protocol/caller.ts";
import { isPattern, matchesPattern } from "../protocol/name-pattern.ts";
import { accepted, type Result, refused } from "../protocol/refusal.ts";
import type { Issuer } from "./issuers.ts";
import type { TokenRefusal } from "./token-refusal.ts";

/** Reads the rights of a token's bearer from its claims. The caller has verified the signature. */
export function readRights(
  payload: JWTPayload,
  { claims, grants }: Pick<Issuer, "claims" | "grants">,
): Result<Caller, TokenRefusal> {
  const grant = grants?.find(({ when }) => matchesAll(payload, when));
  if (grants && !grant) return refused({ reason: "no grant matches" });
  const read = RIGHTS.safeParse({
    subject: firstClaim(payload, claims.subject),
    tenant: grant?.tenant ?? firstClaim(payload, claims.tenant),
    workspaces: grant?.workspaces ?? firstClaim(payload, claims.workspaces),
    scopes: grant?.scopes ?? firstClaim(payload, claims.scopes),
    expires: payload.exp,
    jti: payload.jti,
  });
  if (!read.success) return refused({ reason: z.prettifyError(read.error) });
  const { jti, ...rights } = read.data;
  const problem = hostTokenProblem(rights.scopes, rights.workspaces);
  if (problem !== undefined) return refused({ reason: problem });
  return accepted({ ...rights, ...(jti !== undefined && { jti }) });
}

function firstClaim(payload: JWTPayload, names: readonly string[]): unknown {
  const name = names.find((one) => payload[one] !== undefined && payload[one] !== "");
  return name === undefined ? undefined : payload[name];
}

function matchesAll(payload: JWTPayload, when: Readonly<Record<string, string>>): boolean {
  return Object.entries(when).every(([name, pattern]) => {
    const value = payload[name];
    const values = Array.isArray(value) ? value : [value];
    return values.some((one) => typeof one === "string" && matchesPattern(pattern, one));
  });
}

/** An array of words, or one text with the words separated by spaces. */
const WORDS = z.union([
  z.array(z.string()),
  z.string().transform((text) => text.split(" ").filter((word) => word !== "")),
]);

const RIGHTS = z.object({
  subject: z.string().min(1).max(500),
  // An object's name is `<tenant>/<id>`: a tenant with a / could name another tenant's object.
  tenant: z
    .string()
    .min(1)
    .max(200)
    .refine((tenant) => !tenant.includes("/"), "a tenant has no / in its name"),
  workspaces: z
    .array(z.string().min(1).max(200).refine(isPattern, "a pattern has at most one *"))
    .max(1000)
    .default([]),
  // A token may carry scopes for other services.
  scopes: WORDS.transform((scopes) => [...new Set(scopes.filter(isScope))]).default([]),
  expires: z.number(),
  jti: z.string().min(1).max(500).optional(),
});
