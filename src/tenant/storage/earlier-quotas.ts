import type { Amounts } from "../../protocol/rpc.ts";
import { hourOf } from "../allowance.ts";

/**
 * The quotas of this hour that a tenant of the previous release has given a subject; undefined if there are none.
 * Removable one release later, together with `earlier-calls.ts`.
 */
export function earlierQuotas(
  sql: SqlStorage,
  subject: string,
  now: number,
): { hour: number; amounts: Amounts } | undefined {
  const hour = hourOf(now);
  const rows = sql
    .exec<{ quota: string; given: number }>(
      "SELECT quota, given FROM quota WHERE subject = ? AND hour = ?",
      ...[subject, hour],
    )
    .toArray();
  if (rows.length === 0) return undefined;
  return { hour, amounts: Object.fromEntries(rows.map(({ quota, given }) => [quota, given])) };
}
