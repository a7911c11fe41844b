import { isoTime } from "../../../protocol/iso-time.ts";
import { titleOf } from "../state/session-title.ts";
import type { SessionIdentity, SessionState } from "../state/state.ts";
import { pendingPermissions, pendingQuestions, sessionStatus } from "./projection.ts";

/**
 * The session as the index lists it; undefined for a session that no client has asked for yet. The use of the last two
 * days is enough where the days before have been written: a write that is late may come after midnight.
 */
export function indexEntry(state: SessionState, usageDays = 2) {
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
    usage: usageRows(state, identity, usageDays),
  };
}

function usageRows(
  { sessionId, report }: SessionState,
  { tenant, workspace, owner, agent }: SessionIdentity,
  days: number,
) {
  return (report.usage?.days ?? []).slice(-days).map(({ day, seq, costs, tokens }) => ({
    ...{ tenant, day, sessionId, workspace, subject: owner, agent },
    costs: JSON.stringify(costs),
    totalTokens: tokens.totalTokens ?? 0,
    inputTokens: tokens.inputTokens ?? 0,
    outputTokens: tokens.outputTokens ?? 0,
    lastSeq: seq,
  }));
}
