import type { Caller } from "../protocol/caller.ts";
import type { Filter } from "./keyset-page.ts";

/** The rows of `sessions` and `permissions` that the caller may see; `session` is the column of the session's id. */
export function ofCallersSessions(caller: Caller, session: "id" | "session"): Filter[] {
  const filters = [ofTenant(caller), inWorkspaces(caller, "workspace")];
  return caller.session === undefined
    ? filters
    : [...filters, { where: `${session} = ?`, values: [caller.session] }];
}

/** The rows of `workspaces` that the caller may see. The bearer of a share link sees one session and no workspace. */
export function ofCallersWorkspaces(caller: Caller): Filter[] {
  if (caller.session !== undefined) return [{ where: "FALSE", values: [] }];
  return [ofTenant(caller), inWorkspaces(caller, "workspaces.id")];
}

function ofTenant({ tenant }: Caller): Filter {
  return { where: "tenant = ?", values: [tenant] };
}

/** `mayUseWorkspace` as a condition on the column that has the workspace's name. */
function inWorkspaces({ workspaces }: Caller, column: string): Filter {
  if (workspaces.includes("*")) return { where: "TRUE", values: [] };
  const names = workspaces.filter((name) => !name.includes("*"));
  const patterns = workspaces.filter((name) => name.includes("*")).map((name) => name.split("*"));
  const isNamed = `${column} IN (SELECT value FROM json_each(?))`;
  if (patterns.length === 0) return { where: isNamed, values: [JSON.stringify(names)] };
  // Not GLOB: GLOB has more wildcards than our patterns, and D1 refuses patterns over 50 bytes.
  const matchesPattern = `EXISTS (
    SELECT 1 FROM json_each(?) WHERE length(${column}) >= length(value ->> 0) + length(value ->> 1)
    AND substr(${column}, 1, length(value ->> 0)) = value ->> 0
    AND substr(${column}, length(${column}) - length(value ->> 1) + 1) = value ->> 1)`;
  return {
    where: `(${isNamed} OR ${matchesPattern})`,
    values: [JSON.stringify(names), JSON.stringify(patterns)],
  };
}
