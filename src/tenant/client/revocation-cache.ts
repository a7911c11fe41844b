import type { Caller } from "../../protocol/caller.ts";
import { LIMITS } from "../../protocol/limits.ts";

/** Answers of tenants, for a moment: so that many requests of one caller ask once. */
const known = new Map<string, { revoked: boolean; until: number }>();

/** Whether the caller's token was revoked, as of at most a moment ago. What stays open is told by its tenant. */
export async function isRevoked(env: Env, { tenant, subject, jti }: Caller): Promise<boolean> {
  const key = JSON.stringify([tenant, subject, jti]);
  const answer = known.get(key);
  if (answer && answer.until > Date.now()) return answer.revoked;
  const revoked = await env.TENANT_DO.getByName(tenant).isRevoked({ subject, jti });
  if (known.size >= CALLERS) known.clear();
  known.set(key, { revoked, until: Date.now() + LIMITS.revocationCacheMs });
  return revoked;
}

/** Something was revoked or given back here: this isolate need not wait to hear of it. */
export function forgetAnswers(): void {
  known.clear();
}

const CALLERS = 10_000;
