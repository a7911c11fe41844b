import { isoTime } from "../../../protocol/iso-time.ts";
import { titleOf } from "../state/session-title.ts";
import type { SessionState } from "../state/state.ts";
import { pendingPermissions, pendingQuestions, sessionStatus } from "./projection.ts";

/** The session as the index lists it; undefined for a session that no client has asked for yet. */
export function indexEntry(state: SessionState) {
  const { identity, run } = state;
  if (identity?.request == null) return undefined;
  return {
    sessionId: state.sessionId,
    tenant: identity.tenant,
    workspace: identity.workspace,
    agent: identity.agent,
    cwd: run?.root ?? identity.cwd,
    clientCwd: identity.cwd,
    title: titleOf(state),
    archived: state.archived ?? false,
    state: sessionStatus(state),
    createdAt: isoTime(state.createdAt),
    updatedAt: isoTime(state.lastAt),
    lastSeq: state.lastSeq,
    permissions: JSON.stringify(pendingPermissions(state)),
    questions: JSON.stringify(pendingQuestions(state)),
  };
}
