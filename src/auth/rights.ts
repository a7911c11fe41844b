import type { JWTPayload } from "jose";
import { z } from "zod";
import { type Caller, hostTokenProblem, isHost, isScope, type Scope } from "../protocol/caller.ts";
import { isPattern, matchesPattern } from "../protocol/name-pattern.ts";
import { accepted, type Result, refused } from "../protocol/refusal.ts";
import { schemaFault } from "../protocol/schema-fault.ts";
import type { Issuer, Naming } from "./issuers.ts";
import type { TokenRefusal } from "./token-refusal.ts";

/** Reads the rights of a token's bearer from its claims. The caller has verified the signature. */
export function readRights(
  token: JWTPayload,
  { claims, grants, onlyScopes, ...naming }: Pick<Issuer, "claims" | "grants" | "onlyScopes"> & Naming,
): Result<Caller, TokenRefusal> {
  const payload = withoutUnverifiedEmail(token);
  const grant = grants?.find(({ when }) => matchesAll(payload, when));
  if (grants && !grant)
    return refused({
      reason: payload === token ? "no grant matches" : "no grant matches, and the email is not verified",
    });
  const read = RIGHTS.safeParse({
    subject: firstClaim(payload, claims.subject),
    tenant: grant?.tenant ?? firstClaim(payload, claims.tenant),
    workspaces: grant?.workspaces ?? firstClaim(payload, claims.workspaces),
    scopes: grant?.scopes ?? firstClaim(payload, claims.scopes),
    host: grant?.host ?? firstClaim(payload, claims.host),
    expires: payload.exp,
    jti: payload.jti,
  });
  if (!read.success) return refused({ reason: schemaFault(read.error) });
  const { jti, host, ...rights } = read.data;
  if (onlyScopes && !isWithin(rights.scopes, onlyScopes))
    return refused({ reason: `this issuer may grant ${onlyScopes.join(", ")} alone` });
  const problem = hostTokenProblem(rights.scopes, rights.workspaces);
  if (problem !== undefined) return refused({ reason: problem });
  const { tenant } = rights;
  const subject = nameOf(naming, rights.subject);
  const nameProblem = problemOfNames(naming, rights, jti);
  if (nameProblem !== undefined) return refused({ reason: nameProblem, bearer: { tenant, subject } });
  const hostName = isHost(rights) ? host : undefined;
  return accepted({
    ...rights,
    subject,
    ...(jti !== undefined && { jti: nameOf(naming, jti) }),
    ...(hostName !== undefined && { host: hostName }),
  });
}

function isWithin(scopes: readonly Scope[], allowed: readonly Scope[]): boolean {
  return scopes.length > 0 && scopes.every((scope) => allowed.includes(scope));
}

/** The name of a subject or a token within its tenant. */
function nameOf({ alias }: Naming, name: string): string {
  return alias === undefined ? name : `${alias}|${name}`;
}

/** A token must not name its bearer like somebody else: another issuer's subject, or a part of the gateway. */
function problemOfNames(
  { alias, otherAliases }: Naming,
  { subject, scopes }: Pick<Caller, "subject" | "scopes">,
  jti: string | undefined,
): string | undefined {
  const isHostName = subject.startsWith("host:");
  if (RESERVED.test(subject) || (isHostName && !scopes.includes("host")))
    return "the subject is a name of the gateway";
  if (jti !== undefined && RESERVED.test(jti)) return "the token id is a name of the gateway";
  const names = jti === undefined ? [subject] : [subject, jti];
  const isForeign = otherAliases.some((other) => names.some((name) => name.startsWith(`${other}|`)));
  return alias === undefined && isForeign ? "the subject or the token id is another issuer's" : undefined;
}

/** The bearers of links, logins, webhooks and the gateway itself. Hosts are called `host:…`. */
const RESERVED = /^(?:(?:share|link|login|webhook|gateway):|gateway$)/;

/**
 * Anybody can open an account with somebody else's address at a provider that does not verify addresses. Such a provider
 * says so in `email_verified`, some of them as a text. Cloudflare Access verifies every address and has no such claim.
 */
function withoutUnverifiedEmail(payload: JWTPayload): JWTPayload {
  const { email, email_verified: verified, ...others } = payload;
  const isVerified = verified === undefined || verified === true || verified === "true";
  return email === undefined || isVerified ? payload : others;
}

function firstClaim(payload: JWTPayload, names: readonly string[]): unknown {
  const name = names.find((one) => payload[one] !== undefined && payload[one] !== "");
  return name === undefined ? undefined : payload[name];
}

function matchesAll(payload: JWTPayload, when: Readonly<Record<string, string>>): boolean {
  return Object.entries(when).every(([name, pattern]) => {
    const value = payload[name];
    const values = Array.isArray(value) ? value : [value];
    return values.some((one) => typeof one === "string" && matchesClaim(pattern, one));
  });
}

/** The `*` in a pattern for addresses stands for no second @: `*@acme.example` are the addresses of one domain. */
function matchesClaim(pattern: string, value: string): boolean {
  if (!matchesPattern(pattern, value)) return false;
  return !pattern.includes("@") || countOfAt(value) === countOfAt(pattern);
}

function countOfAt(text: string): number {
  return text.split("@").length - 1;
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
  // The longest name that a host may have.
  host: z.string().min(1).max(200).optional(),
  expires: z.number(),
  jti: z.string().min(1).max(500).optional(),
});
