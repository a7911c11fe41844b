import type { SessionState } from "./state.ts";

/** The title that a person gave the session, or else the agent's. */
export function titleOf({ title, report }: Pick<SessionState, "title" | "report">): string | null {
  return title ?? report.info.title;
}
