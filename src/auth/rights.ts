import type { JWTPayload } from "jose";
import { z } from "zod";
import { badHost, type Caller, isScope } from "../protocol/caller.ts";
import { isPattern, matchesPattern } from "../protocol/name-pattern.ts";
import type { Issuer } from "./issuers.ts";

/** What a token of this issuer says about its bearer; or why it is of no use. The signature has been checked. */
export function readRights(
  payload: JWTPayload,
  { claims, grants }: Pick<Issuer, "claims" | "grants">,
): Caller | { refused: string } {
  const grant = grants?.find(({ when }) => fits(payload, when));
  if (grants && !grant) return { refused: "no grant is for it" };
  const read = RIGHTS.safeParse({
    subject: first(payload, claims.subject),
    tenant: grant?.tenant ?? first(payload, claims.tenant),
    workspaces: grant?.workspaces ?? first(payload, claims.workspaces),
    scopes: grant?.scopes ?? first(payload, claims.scopes),
    expires: payload.exp,
    jti: payload.jti,
  });
  if (!read.success) return { refused: z.prettifyError(read.error) };
  const { jti, ...rights } = read.data;
  const problem = badHost(rights.scopes, rights.workspaces);
  return problem === undefined ? { ...rights, ...(jti !== undefined && { jti }) } : { refused: problem };
}

function first(payload: JWTPayload, names: readonly string[]): unknown {
  const name = names.find((one) => payload[one] !== undefined && payload[one] !== "");
  return name === undefined ? undefined : payload[name];
}

function fits(payload: JWTPayload, when: Readonly<Record<string, string>>): boolean {
  return Object.entries(when).every(([name, pattern]) => {
    const value = payload[name];
    const values = Array.isArray(value) ? value : [value];
    return values.some((one) => typeof one === "string" && matchesPattern(pattern, one));
  });
}

/** A list, or the same in one text with spaces between. */
const LIST = z.union([
  z.array(z.string()),
  z.string().transform((text) => text.split(" ").filter((word) => word !== "")),
]);

const RIGHTS = z.object({
  subject: z.string().min(1).max(500),
  // The name of a workspace's object is `<tenant>/<workspace>`: only so is it nobody else's.
  tenant: z
    .string()
    .min(1)
    .max(200)
    .refine((tenant) => !tenant.includes("/"), "a tenant has no / in its name"),
  workspaces: z
    .array(z.string().min(1).max(200).refine(isPattern, "a pattern has at most one *"))
    .max(1000)
    .default([]),
  // Those we do not know are somebody else's.
  scopes: LIST.transform((scopes) => [...new Set(scopes.filter(isScope))]).default([]),
  expires: z.number(),
  jti: z.string().min(1).max(500).optional(),
});
