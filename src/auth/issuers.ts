import { z } from "zod";
import { SCOPES, type Scope } from "../protocol/caller.ts";
import { isRecord, type JsonObject } from "../protocol/json-value.ts";
import { readLimits } from "../protocol/limits.ts";
import { isPattern } from "../protocol/name-pattern.ts";
import { schemaFault } from "../protocol/schema-fault.ts";
import { isSecureUrl } from "../protocol/secure-url.ts";
import { HOST_ISSUER, HOST_ISSUER_SCOPES, isSameKey, publicHostKey } from "./host-issuer.ts";
import { inlineKeys, type KeySet, RemoteKeys } from "./keys.ts";

/** A party that may sign tokens, and how to read its tokens. */
export type Issuer = Omit<IssuerConfig, "jwks" | "jwksUrl" | "alias"> & {
  keys: KeySet;
  /** The only scopes that the issuer's tokens may have; absent: any. */
  onlyScopes?: readonly Scope[];
} & Naming;

/**
 * Subjects and token ids belong to their issuer: two issuers of a tenant share no names. Those of the first issuer are
 * as they are in its tokens; those of the others begin with the issuer's `alias` and a bar.
 */
export type Naming = {
  readonly alias: string | undefined;
  /** The aliases of all other issuers: no name may begin with one of them and a bar. */
  readonly otherAliases: readonly string[];
};

/** The configuration is invalid. Every caller is refused until it is corrected. */
export class AuthConfigError extends Error {}

/** The variables that configure issuers. */
export type AuthVars = {
  readonly AUTH_ISSUERS?: string | undefined;
  readonly AUTH_ISSUER?: string | undefined;
  readonly AUTH_AUDIENCE?: string | undefined;
  readonly AUTH_JWKS?: string | undefined;
  readonly AUTH_CLOCK_SKEW?: string | undefined;
  readonly HOST_SIGNING_KEY?: string | undefined;
  readonly LIMITS?: string | undefined;
};

/** An isolate reads its issuers once, and again only if a variable differs. */
let cache: { key: string; issuers: readonly Issuer[] } | undefined;

export function issuersOf(env: AuthVars): readonly Issuer[] {
  const { AUTH_ISSUERS, AUTH_JWKS, AUTH_ISSUER, AUTH_AUDIENCE, AUTH_CLOCK_SKEW, HOST_SIGNING_KEY, LIMITS } =
    env;
  const key = JSON.stringify([
    ...[AUTH_ISSUERS, AUTH_JWKS, AUTH_ISSUER, AUTH_AUDIENCE, AUTH_CLOCK_SKEW, HOST_SIGNING_KEY, LIMITS],
  ]);
  if (cache?.key !== key) cache = { key, issuers: readIssuers(env) };
  return cache.issuers;
}

export function readIssuers(env: AuthVars): Issuer[] {
  const listed = env.AUTH_ISSUERS ? read("AUTH_ISSUERS", z.array(ISSUER), env.AUTH_ISSUERS) : [];
  const issuers = [...shortForm(env), ...listed];
  if (issuers.length === 0)
    throw new AuthConfigError("Nobody may sign tokens: set AUTH_JWKS to public keys, or AUTH_ISSUERS");
  const limits = readLimits(env.LIMITS);
  const hostKey = hostKeyIn(env, issuers);
  const isHostKey = (key: unknown) => hostKey !== undefined && isRecord(key) && isSameKey(key, hostKey);
  const aliases = aliasesOf(issuers);
  const aliasesBut = (own: string) =>
    [...aliases].flatMap(([name, alias]) => (name === own ? [] : (alias ?? [])));
  return [
    ...issuers.map(({ jwks, jwksUrl, alias: _, ...issuer }) => ({
      ...issuer,
      alias: aliases.get(issuer.issuer),
      otherAliases: aliasesBut(issuer.issuer),
      keys: jwks ? inlineKeys(jwks) : new RemoteKeys(new URL(jwksUrl as string), limits, isHostKey),
    })),
    ...(hostKey ? [hostIssuer(hostKey, aliasesBut(HOST_ISSUER))] : []),
  ];
}

/** The public half of HOST_SIGNING_KEY. With it the gateway could sign anything that another issuer could. */
function hostKeyIn({ HOST_SIGNING_KEY }: AuthVars, issuers: readonly IssuerConfig[]): JsonObject | undefined {
  if (issuers.some(({ issuer }) => issuer === HOST_ISSUER))
    throw new AuthConfigError(`The name ${HOST_ISSUER} is reserved for the gateway's own host tokens`);
  if (!HOST_SIGNING_KEY) return undefined;
  const hostKey = publicHostKey(HOST_SIGNING_KEY);
  if (!hostKey) throw new AuthConfigError("HOST_SIGNING_KEY is not a private JSON Web Key");
  const shared = issuers.find(({ jwks }) => jwks?.keys.some((key) => isSameKey(key, hostKey)));
  if (shared)
    throw new AuthConfigError(
      `HOST_SIGNING_KEY is also a key of the issuer ${shared.issuer}: make a key for hosts alone`,
    );
  return hostKey;
}

/** The subjects of the gateway's own tokens are called `host:…`, as those of all hosts, so they need no alias. */
function hostIssuer(key: JsonObject, otherAliases: readonly string[]): Issuer {
  const { alg } = key;
  const config = { issuer: HOST_ISSUER, audience: HOST_ISSUER, jwks: { keys: [key] }, algorithms: [alg] };
  const { jwks, jwksUrl: _, ...issuer } = read("HOST_SIGNING_KEY", ISSUER, JSON.stringify(config));
  return {
    ...issuer,
    alias: undefined,
    otherAliases,
    keys: inlineKeys(jwks),
    onlyScopes: HOST_ISSUER_SCOPES,
  };
}

/** The alias of each issuer. Entries with the same issuer differ in their audience and share their names. */
function aliasesOf(issuers: readonly IssuerConfig[]): Map<string, string | undefined> {
  const aliases = new Map<string, string | undefined>();
  for (const { issuer, alias } of issuers) {
    if (aliases.has(issuer) && (alias === undefined || alias === aliases.get(issuer))) continue;
    const isFirst = aliases.size === 0;
    const name = alias ?? (isFirst ? undefined : issuer);
    if (name?.includes("|")) throw new AuthConfigError(`The issuer ${issuer} needs an alias without |`);
    if (aliases.has(issuer)) throw new AuthConfigError(`The issuer ${issuer} has two aliases`);
    if (name !== undefined && [...aliases.values()].includes(name))
      throw new AuthConfigError(`Two issuers have the alias ${name}`);
    aliases.set(issuer, name);
  }
  return aliases;
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
  throw new AuthConfigError(`${name}: ${schemaFault(checked.error)}`);
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
    issuer: NAME.max(200),
    /** Precedes the subjects of this issuer. Without one, the first issuer's are bare, and others have the issuer's name. */
    alias: NAME.max(100).optional(),
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
    /** The claims to read instead of `sub`, `tenant`, `workspaces`, `scopes` and `host`: the first that a token has. */
    claims: z
      .strictObject({
        subject: NAMES.default(["sub"]),
        tenant: NAMES.default(["tenant"]),
        workspaces: NAMES.default(["workspaces"]),
        scopes: NAMES.default(["scopes", "scope"]),
        host: NAMES.default(["host"]),
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
          /** The name of the only host that may join with the token. */
          host: NAME.optional(),
        }),
      )
      .min(1)
      .optional(),
    /** How people log in at this issuer, which is an OpenID provider. Absent: they bring tokens. */
    login: z
      .strictObject({
        /** The provider's name in addresses and for people. By default the issuer's host name. */
        name: z
          .string()
          .regex(/^[\w.-]{1,64}$/)
          .optional(),
        clientId: NAME,
        /** A client without a secret is a public client. */
        clientSecret: NAME.optional(),
        /** The public client of `acp-edge login`. By default the gateway's own client, if that is public. */
        commandClientId: NAME.optional(),
        scopes: z.array(NAME).default(["openid", "email", "profile"]),
        /** The token that the gateway reads: the id token, or the access token if the provider issues JWTs. */
        token: z.enum(["id", "access"]).default("id"),
      })
      .optional(),
  })
  .refine(
    ({ issuer, login }) => !login || (URL.canParse(issuer) && isSecureUrl(issuer)),
    "people log in over https: the issuer is an https address",
  )
  .refine(({ jwks, jwksUrl }) => (jwks === undefined) !== (jwksUrl === undefined), "give jwks or jwksUrl");

type IssuerConfig = z.infer<typeof ISSUER>;
