import type { Caller } from "../../protocol/caller.ts";
import type { Limits } from "../../protocol/limits.ts";

/** The latest answers of tenants in this isolate, so that a burst of requests of one caller costs one call. */
const answers = new Map<string, { isRevoked: boolean; until: number }>();

/**
 * Whether the caller's token is revoked, at most `revocationCacheMs` late. Open sockets need not ask: their tenant
 * closes them.
 */
export async function isRevoked(
  env: Env,
  limits: Pick<Limits, "revocationCacheMs">,
  { tenant, subject, jti }: Caller,
): Promise<boolean> {
  const key = JSON.stringify([tenant, subject, jti]);
  const answer = answers.get(key);
  if (answer && answer.until > Date.now()) return answer.isRevoked;
  const revoked = await env.TENANT_DO.getByName(tenant).isRevoked({ subject, jti });
  if (answers.size >= MAX_ANSWERS) answers.clear();
  answers.set(key, { isRevoked: revoked, until: Date.now() + limits.revocationCacheMs });
  return revoked;
}

/** Makes a revocation that came through this isolate effective at once. */
export function clearRevocationCache(): void {
  answers.clear();
}

const MAX_ANSWERS = 10_000;
