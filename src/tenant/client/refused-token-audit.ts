import type { Limits } from "../../protocol/limits.ts";
import { audit } from "./audit.ts";

type Bearer = { tenant: string; subject: string };

/** Refusals since the last audited one, by bearer and reason. */
const refusals = new Map<string, { count: number; since: number }>();

/**
 * Audits the refusal of a token whose signature is valid, so that its bearer is known. For a client that keeps trying
 * an entry is written every `refusalAuditMs`, with the number of refusals since the entry before.
 */
export async function auditRefusedToken(
  env: Env,
  limits: Pick<Limits, "refusalAuditMs">,
  { tenant, subject }: Bearer,
  reason: string,
): Promise<void> {
  const key = JSON.stringify([tenant, subject, reason]);
  const before = refusals.get(key);
  if (before && Date.now() < before.since + limits.refusalAuditMs) {
    before.count += 1;
    return;
  }
  if (refusals.size >= MAX_BEARERS) refusals.clear();
  refusals.set(key, { count: 0, since: Date.now() });
  const detail = { reason, ...(before && before.count > 0 && { alsoBefore: before.count }) };
  await audit(env, tenant, { kind: "token.refused", subject, detail });
}

const MAX_BEARERS = 1000;
