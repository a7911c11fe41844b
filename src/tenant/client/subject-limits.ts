import { callObject } from "../../durable/object-call.ts";
import { subjectObject } from "../../durable/objects.ts";
import type { Caller } from "../../protocol/caller.ts";
import type { Limits } from "../../protocol/limits.ts";
import { accepted, type Result, refused } from "../../protocol/refusal.ts";
import { quotaRefusal } from "./quota-refusal.ts";

/**
 * Counts one more session of the caller, unless the caller has opened as many as it may in this hour. An object
 * that is reset just after it has counted counts twice, which the quota has room for.
 */
export async function countSession(
  env: Env,
  limits: Limits,
  { tenant, subject }: Caller,
): Promise<Result<undefined>> {
  const isCounted = await callObject(
    () => subjectObject(env, tenant, subject),
    (object) => object.takeSessionQuota(),
  );
  return isCounted ? accepted() : refused(quotaRefusal(limits, "sessions", Date.now()));
}
