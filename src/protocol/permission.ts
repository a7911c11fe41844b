/** One of the options an agent offers with a permission request. */
export type PermissionOption = { optionId: string; kind: string | null; name: string | null };

/** Names an option by its id, or by its kind. */
export type PermissionChoice = { optionId: string } | { kind: string };

/** A pending permission request, as shown to a reader who sees nothing else of the session. */
export type PermissionSummary = {
  workspace: string;
  sessionTitle: string | null;
  title: string | null;
  kind: string | null;
  options: PermissionOption[];
};
