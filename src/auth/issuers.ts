import { z } from "zod";
import { SCOPES } from "../protocol/caller.ts";
import { isPattern } from "../protocol/name-pattern.ts";
import { isPrivateLine } from "../protocol/secure-url.ts";
import { inlineKeys, type KeySet, RemoteKeys } from "./keys.ts";

/** Who may sign tokens, and how to read theirs. */
export type Issuer = Omit<IssuerConfig, "jwks" | "jwksUrl"> & { keys: KeySet };

/** The configuration is no good: nobody is let in before it is put right. */
export class AuthConfigError extends Error {}

/** The parts of the environment that say who may sign tokens. */
export type AuthVars = {
  readonly AUTH_ISSUERS?: string | undefined;
  readonly AUTH_ISSUER?: string | undefined;
  readonly AUTH_AUDIENCE?: string | undefined;
  readonly AUTH_JWKS?: string | undefined;
  readonly AUTH_CLOCK_SKEW?: string | undefined;
};

/** Read once per isolate; remembered with what it was read from. */
let known: { from: string; issuers: readonly Issuer[] } | undefined;

export function issuersOf(env: AuthVars): readonly Issuer[] {
  const { AUTH_ISSUERS, AUTH_JWKS, AUTH_ISSUER, AUTH_AUDIENCE, AUTH_CLOCK_SKEW } = env;
  const from = [AUTH_ISSUERS, AUTH_JWKS, AUTH_ISSUER, AUTH_AUDIENCE, AUTH_CLOCK_SKEW].join("\n");
  if (known?.from !== from) known = { from, issuers: readIssuers(env) };
  return known.issuers;
}

export function readIssuers(env: AuthVars): Issuer[] {
  const listed = env.AUTH_ISSUERS ? read("AUTH_ISSUERS", z.array(ISSUER), env.AUTH_ISSUERS) : [];
  const issuers = [...listed, ...shortForm(env)];
  if (issuers.length === 0)
    throw new AuthConfigError("Nobody may sign tokens: set AUTH_JWKS to public keys, or AUTH_ISSUERS");
  return issuers.map(({ jwks, jwksUrl, ...issuer }) => ({
    ...issuer,
    keys: jwks ? inlineKeys(jwks) : new RemoteKeys(new URL(jwksUrl as string)),
  }));
}

/** One issuer with inline keys, in variables of their own. Without keys it is not there. */
function shortForm({ AUTH_JWKS, AUTH_ISSUER, AUTH_AUDIENCE, AUTH_CLOCK_SKEW }: AuthVars): IssuerConfig[] {
  if (!AUTH_JWKS) return [];
  const jwks = read("AUTH_JWKS", z.object({ keys: z.array(z.unknown()) }), AUTH_JWKS);
  if (jwks.keys.length === 0) return [];
  const clockSkew = AUTH_CLOCK_SKEW ? Number(AUTH_CLOCK_SKEW) : undefined;
  const one = {
    issuer: AUTH_ISSUER,
    audience: AUTH_AUDIENCE,
    jwks,
    ...(clockSkew !== undefined && { clockSkew }),
  };
  return [read("AUTH_ISSUER, AUTH_AUDIENCE, AUTH_JWKS", ISSUER, JSON.stringify(one))];
}

function read<T>(name: string, schema: z.ZodType<T>, text: string): T {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch {
    throw new AuthConfigError(`${name} is not JSON`);
  }
  const checked = schema.safeParse(value);
  if (checked.success) return checked.data;
  throw new AuthConfigError(`${name}: ${z.prettifyError(checked.error)}`);
}

/** Only such where the key that checks is not the key that signs. */
const ALGORITHMS = [
  "EdDSA",
  "Ed25519",
  "ES256",
  "ES384",
  "ES512",
  "RS256",
  "RS384",
  "RS512",
  "PS256",
  "PS384",
  "PS512",
] as const;

const NAME = z.string().min(1);
const NAMES = z.union([NAME.transform((name) => [name]), z.array(NAME).min(1)]);
const PATTERN = NAME.refine(isPattern, "a pattern has at most one *");

const PUBLIC_KEY = z
  .looseObject({ kty: z.enum(["OKP", "EC", "RSA"], "only public keys of the kinds OKP, EC and RSA") })
  .refine((key) => !("d" in key), "this is a private key: only the public half belongs here");

const ISSUER = z
  .strictObject({
    issuer: NAME,
    audience: NAMES,
    jwks: z.object({ keys: z.array(PUBLIC_KEY).min(1) }).optional(),
    jwksUrl: z
      .url({ protocol: /^https?$/ })
      // Keys that came over a line anybody can write on would let anybody in.
      .refine(isPrivateLine, "keys are fetched over https")
      .optional(),
    algorithms: z.array(z.enum(ALGORITHMS)).min(1).default(["EdDSA", "ES256", "RS256"]),
    /** Seconds that its clock may differ from ours. */
    clockSkew: z.number().min(0).max(300).default(5),
    /** The claims to read in place of `sub`, `tenant`, `workspaces` and `scopes`; the first one that is there. */
    claims: z
      .strictObject({
        subject: NAMES.default(["sub"]),
        tenant: NAMES.default(["tenant"]),
        workspaces: NAMES.default(["workspaces"]),
        scopes: NAMES.default(["scopes", "scope"]),
      })
      .prefault({}),
    /**
     * What its tokens allow, in place of what they say of themselves: of the first grant whose claims, given as
     * patterns, are all in the token. A token that no grant fits is refused.
     */
    grants: z
      .array(
        z.strictObject({
          when: z.record(z.string(), PATTERN).default({}),
          tenant: NAME.optional(),
          workspaces: z.array(PATTERN).optional(),
          scopes: z.array(z.enum(SCOPES)).optional(),
        }),
      )
      .min(1)
      .optional(),
  })
  .refine(({ jwks, jwksUrl }) => (jwks === undefined) !== (jwksUrl === undefined), "give jwks or jwksUrl");

type IssuerConfig = z.infer<typeof ISSUER>;
