import { applyAllowList, each, members, scalars } from "./allow-list.ts";
import type { PermissionDetail } from "./permission-details.ts";

/** One of the options an agent offers with a permission request. */
export type PermissionOption = { optionId: string; kind: string | null; name: string | null };

/** The members of options that a redacted reader may see. */
export const VISIBLE_OPTIONS = each(members(scalars("optionId", "name", "kind")));

/** The options of a permission request, as JSON text, without the members that a redacted reader may not see. */
export function redactOptions(options: string): string {
  return applyAllowList(options, VISIBLE_OPTIONS);
}

/** Names an option by its id, or by its kind. */
export type PermissionChoice = { optionId: string } | { kind: string };

/** A pending permission request, as shown to a reader who sees nothing else of the session. */
export type PermissionSummary = {
  workspace: string;
  sessionTitle: string | null;
  title: string | null;
  kind: string | null;
  options: PermissionOption[];
  /** All that the request asks for, with invisible characters marked. */
  details: PermissionDetail[];
};
