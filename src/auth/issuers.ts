import { z } from "zod";
import { SCOPES } from "../protocol/caller.ts";
import { readLimits } from "../protocol/limits.ts";
import { isPattern } from "../protocol/name-pattern.ts";
import { isSecureUrl } from "../protocol/secure-url.ts";
import { inlineKeys, type KeySet, RemoteKeys } from "./keys.ts";

/** A party that may sign tokens, and how to read its tokens. */
export type Issuer = Omit<IssuerConfig, "jwks" | "jwksUrl"> & { keys: KeySet };

/** The configuration is invalid. Every caller is refused until it is corrected. */
export class AuthConfigError extends Error {}

/** The variables that configure issuers. */
export type AuthVars = {
  readonly AUTH_ISSUERS?: string | undefined;
  readonly AUTH_ISSUER?: string | undefined;
  readonly AUTH_AUDIENCE?: string | undefined;
  readonly AUTH_JWKS?: string | undefined;
  readonly AUTH_CLOCK_SKEW?: string | undefined;
  readonly LIMITS?: string | undefined;
};

/** An isolate reads its issuers once, and again only if a variable differs. */
let cache: { key: string; issuers: readonly Issuer[] } | undefined;

export function issuersOf(env: AuthVars): readonly Issuer[] {
  const { AUTH_ISSUERS, AUTH_JWKS, AUTH_ISSUER, AUTH_AUDIENCE, AUTH_CLOCK_SKEW, LIMITS } = env;
  const key = [AUTH_ISSUERS, AUTH_JWKS, AUTH_ISSUER, AUTH_AUDIENCE, AUTH_CLOCK_SKEW, LIMITS].join("\n");
  if (cache?.key !== key) cache = { key, issuers: readIssuers(env) };
  return cache.issuers;
}

export function readIssuers(env: AuthVars): Issuer[] {
  const listed = env.AUTH_ISSUERS ? read("AUTH_ISSUERS", z.array(ISSUER), env.AUTH_ISSUERS) : [];
  const issuers = [...listed, ...shortForm(env)];
  if (issuers.length === 0)
    throw new AuthConfigError("Nobody may sign tokens: set AUTH_JWKS to public keys, or AUTH_ISSUERS");
  const limits = readLimits(env.LIMITS);
  return issuers.map(({ jwks, jwksUrl, ...issuer }) => ({
    ...issuer,
    keys: jwks ? inlineKeys(jwks) : new RemoteKeys(new URL(jwksUrl as string), limits),
  }));
}

/** The issuer that AUTH_ISSUER, AUTH_AUDIENCE and AUTH_JWKS describe. Without keys there is none. */
function shortForm({ AUTH_JWKS, AUTH_ISSUER, AUTH_AUDIENCE, AUTH_CLOCK_SKEW }: AuthVars): IssuerConfig[] {
  if (!AUTH_JWKS) return [];
  const jwks = read("AUTH_JWKS", z.object({ keys: z.array(z.unknown()) }), AUTH_JWKS);
  if (jwks.keys.length === 0) return [];
  const clockSkew = AUTH_CLOCK_SKEW ? Number(AUTH_CLOCK_SKEW) : undefined;
  const issuer = {
    issuer: AUTH_ISSUER,
    audience: AUTH_AUDIENCE,
    jwks,
    ...(clockSkew !== undefined && { clockSkew }),
  };
  return [read("AUTH_ISSUER, AUTH_AUDIENCE, AUTH_JWKS", ISSUER, JSON.stringify(issuer))];
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

/** Only asymmetric algorithms: the gateway verifies tokens, and must not be able to sign them. */
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
      // An attacker who can alter the response could add a key and sign tokens.
      .refine(isSecureUrl, "keys are fetched over https")
      .optional(),
    algorithms: z.array(z.enum(ALGORITHMS)).min(1).default(["EdDSA", "ES256", "RS256"]),
    /** Seconds by which the issuer's clock may differ from ours. */
    clockSkew: z.number().min(0).max(300).default(5),
    /** The claims to read instead of `sub`, `tenant`, `workspaces` and `scopes`: the first that a token has. */
    claims: z
      .strictObject({
        subject: NAMES.default(["sub"]),
        tenant: NAMES.default(["tenant"]),
        workspaces: NAMES.default(["workspaces"]),
        scopes: NAMES.default(["scopes", "scope"]),
      })
      .prefault({}),
    /**
     * The rights of tokens, instead of the rights they claim. The first grant counts whose patterns in `when` all match
     * the token's claims. A token that matches no grant is refused.
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
