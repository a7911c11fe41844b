import { type Caller, isHost } from "../../protocol/caller.ts";
import type { Limits } from "../../protocol/limits.ts";
import { accepted, type Result, refused } from "../../protocol/refusal.ts";
import { quotaRefusal } from "./quota-refusal.ts";

/** Counts one more session of the caller, unless the caller has opened as many as it may in this hour. */
export async function countSession(
  env: Env,
  limits: Limits,
  { tenant, subject }: Caller,
): Promise<Result<undefined>> {
  const isCounted = await env.TENANT_DO.getByName(tenant).takeSessionQuota(subject);
  return isCounted ? accepted() : refused(quotaRefusal(limits, "sessions", Date.now()));
}

/** Whether the caller may open one more socket. Hosts need one per session that they run, so they have no limit. */
export async function mayConnect(env: Env, limits: Limits, caller: Caller): Promise<boolean> {
  if (isHost(caller)) return true;
  const open = await env.TENANT_DO.getByName(caller.tenant).countSockets(caller.subject);
  return open < limits.socketsPerSubject;
}
