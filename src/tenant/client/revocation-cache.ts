import { callObject } from "../../durable/object-call.ts";
import { subjectObject } from "../../durable/objects.ts";
import type { Caller } from "../../protocol/caller.ts";
import type { Limits } from "../../protocol/limits.ts";
import { subjectTokenOf } from "../../protocol/subject-rpc.ts";

/** The latest answers of subjects in this isolate, so that a burst of requests of one caller costs one call. */
const answers = new Map<string, { isRevoked: boolean; until: number }>();

/**
 * Whether a caller's token is revoked, at most `revocationCacheMs` late. Revocations close open sockets themselves.
 * Throws if nobody can say it now, which is no reason to refuse the token.
 */
export async function isRevoked(
  env: Env,
  limits: Pick<Limits, "revocationCacheMs">,
  caller: Caller,
): Promise<boolean> {
  const token = subjectTokenOf(caller);
  const key = JSON.stringify(token);
  const answer = answers.get(key);
  if (answer && answer.until > Date.now()) return answer.isRevoked;
  const revoked = await callObject(
    () => subjectObject(env, token.tenant, token.subject),
    (object) => object.isRevoked(token),
  );
  if (answers.size >= MAX_ANSWERS) answers.clear();
  answers.set(key, { isRevoked: revoked, until: Date.now() + limits.revocationCacheMs });
  return revoked;
}

/** Makes a revocation that came through this isolate effective at once. */
export function clearRevocationCache(): void {
  answers.clear();
}

const MAX_ANSWERS = 10_000;
