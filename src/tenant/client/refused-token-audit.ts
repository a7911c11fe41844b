import { LIMITS } from "../../protocol/limits.ts";
import { audit } from "./audit.ts";

type Bearer = { tenant: string; subject: string };

/** Refusals since they were last noted. */
const counted = new Map<string, { count: number; since: number }>();

/**
 * Notes that a token was refused whose bearer is known, because its signature is good. A client that keeps trying
 * is noted once in a while, with how often it has tried.
 */
export async function noteRefusal(env: Env, { tenant, subject }: Bearer, reason: string): Promise<void> {
  const key = JSON.stringify([tenant, subject, reason]);
  const before = counted.get(key);
  if (before && Date.now() < before.since + LIMITS.refusalAuditMs) {
    before.count += 1;
    return;
  }
  if (counted.size >= BEARERS) counted.clear();
  counted.set(key, { count: 0, since: Date.now() });
  const detail = { reason, ...(before && before.count > 0 && { alsoBefore: before.count }) };
  await audit(env, tenant, { kind: "token.refused", subject, detail });
}

const BEARERS = 1000;
