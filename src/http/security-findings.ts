import { rootKeys, type SecretsVars } from "../auth/derived-keys.ts";
import { type AuthVars, type Issuer, issuersOf } from "../auth/issuers.ts";
import { readRegions } from "../durable/regions.ts";
import { isSecureUrl } from "../protocol/secure-url.ts";
import type { SecurityFinding } from "../protocol/security-report.ts";
import { readWebhookTargets } from "../protocol/webhook-targets.ts";

/** The part of the deployment's configuration that decides its security. No finding contains a value of a secret. */
export type SecurityVars = AuthVars &
  SecretsVars & {
    readonly ALLOWED_ORIGINS?: string | undefined;
    readonly WEBHOOK_TARGETS?: string | undefined;
    readonly PUBLIC_URL?: string | undefined;
    readonly RATE_LIMITER?: unknown;
    readonly REGIONS?: string | undefined;
  };

/** Says how a deployment stands, as far as its configuration shows. */
export function securityFindings(env: SecurityVars, requestUrl: string): SecurityFinding[] {
  return [
    encryption(env.PUBLIC_URL || requestUrl),
    ...issuersOf(env).map(issuer),
    secretsKey(env),
    rateLimiter(env),
    origins(env),
    webhookTargets(env),
    regions(env),
    limits(env),
  ];
}

function encryption(url: string): SecurityFinding {
  const { protocol, host } = new URL(url);
  if (protocol === "https:") return ok("encryption", `${host} is reached over https`);
  if (isSecureUrl(url)) return ok("encryption", `${host} is reached from its own machine only`);
  return failed(
    "encryption",
    `${host} is reached without encryption`,
    "Put a proxy with TLS in front of the gateway, and set PUBLIC_URL to its address.",
  );
}

function issuer({ issuer: name, grants, login }: Issuer): SecurityFinding {
  const how = login ? ", where people log in" : "";
  if (grants) return ok("issuer", `tokens of ${name}${how} get the rights of its grants`);
  return warning(
    "issuer",
    `tokens of ${name}${how} bring their own rights: whoever holds its key is an administrator of every tenant`,
    "Give the issuer `grants` in AUTH_ISSUERS, or keep its key as you keep the account's.",
  );
}

function secretsKey(env: SecurityVars): SecurityFinding {
  const keys = rootKeys(env);
  if (keys.length === 0)
    return warning(
      "secrets-key",
      "there is no SECRETS_KEY: no secrets of workspaces, no links that can be checked before an object is asked",
      "Set the secret SECRETS_KEY to 32 random bytes in base64url.",
    );
  if (keys.length > 1)
    return warning(
      "secrets-key",
      `${keys.length - 1} previous key is still accepted`,
      "Remove SECRETS_KEY_PREVIOUS once the links made under it have expired.",
    );
  return ok("secrets-key", "secrets and links are protected by SECRETS_KEY");
}

function rateLimiter({ RATE_LIMITER }: SecurityVars): SecurityFinding {
  if (RATE_LIMITER) return ok("rate-limiter", "requests are limited per address and per subject");
  return warning(
    "rate-limiter",
    "requests without a valid token are not limited per address",
    "Bind a rate limiter called RATE_LIMITER, or limit requests in front of the gateway.",
  );
}

function origins({ ALLOWED_ORIGINS = "" }: SecurityVars): SecurityFinding {
  const all = ALLOWED_ORIGINS.split(/[\s,]+/).filter((one) => one !== "");
  const open = all.filter((one) => /^(?:https?:\/\/)?\*/.test(one) && !one.includes("*."));
  if (open.length > 0)
    return failed(
      "origins",
      `pages of any origin may use the gateway: ${open.join(" ")}`,
      "Name the origins in ALLOWED_ORIGINS.",
    );
  return ok(
    "origins",
    all.length === 0 ? "only the gateway's own pages may use it" : `also ${all.join(" ")}`,
  );
}

function webhookTargets({ WEBHOOK_TARGETS }: SecurityVars): SecurityFinding {
  const targets = readWebhookTargets(WEBHOOK_TARGETS);
  if (targets === "public") return ok("webhook-targets", "webhooks go to public addresses");
  return warning(
    "webhook-targets",
    `webhooks may go to ${targets === "any" ? "any address of the gateway's network" : "this machine"}`,
    "Set WEBHOOK_TARGETS to public where others may make webhooks.",
  );
}

/** A tenant whose jurisdiction has changed is refused before it could ask for findings. */
function regions({ REGIONS }: SecurityVars): SecurityFinding {
  const named = [...readRegions(REGIONS)].flatMap(([name, { jurisdiction }]) =>
    jurisdiction === null ? [] : `${name} ${jurisdiction}`,
  );
  if (named.length === 0) return ok("regions", "no tenant is restricted to a jurisdiction");
  return ok("regions", `tenants in a jurisdiction: ${named.join(", ")}`);
}

function limits({ LIMITS }: SecurityVars): SecurityFinding {
  const names = LIMITS ? Object.keys(JSON.parse(LIMITS) as object) : [];
  if (names.length === 0) return ok("limits", "all limits have their defaults");
  return ok("limits", `limits of this deployment's own: ${names.join(", ")}`);
}

function ok(id: string, message: string): SecurityFinding {
  return { id, level: "ok", message };
}

function warning(id: string, message: string, hint: string): SecurityFinding {
  return { id, level: "warning", message, hint };
}

function failed(id: string, message: string, hint: string): SecurityFinding {
  return { id, level: "failed", message, hint };
}
