import type { Caller } from "../protocol/caller.ts";

/** `mayUseWorkspace` for the lines of an index: a condition on the column with the name, and the values it takes. */
export function inWorkspacesOf(
  { workspaces, session }: Caller,
  column: "workspace" | "workspaces.id" = "workspace",
): { where: string; values: string[] } {
  // Who came by a link knows of one session and nothing around it.
  if (session !== undefined && column === "workspaces.id") return { where: "FALSE", values: [] };
  if (workspaces.includes("*")) return { where: "TRUE", values: [] };
  const names = workspaces.filter((name) => !name.includes("*"));
  const patterns = workspaces.filter((name) => name.includes("*")).map((name) => name.split("*"));
  const named = `${column} IN (SELECT value FROM json_each(?))`;
  if (patterns.length === 0) return { where: named, values: [JSON.stringify(names)] };
  // Not GLOB: it has more wildcards than ours, and D1 refuses patterns over 50 bytes.
  const matching = `EXISTS (
    SELECT 1 FROM json_each(?) WHERE length(${column}) >= length(value ->> 0) + length(value ->> 1)
    AND substr(${column}, 1, length(value ->> 0)) = value ->> 0
    AND substr(${column}, length(${column}) - length(value ->> 1) + 1) = value ->> 1)`;
  return { where: `(${named} OR ${matching})`, values: [JSON.stringify(names), JSON.stringify(patterns)] };
}
