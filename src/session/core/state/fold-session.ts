import { assertNever } from "../../../protocol/assert-never.ts";
import { clip } from "../../../protocol/clipped-text.ts";
import { ASK_ALWAYS } from "../../../protocol/permission-policy.ts";
import type { Facts } from "../events/catalogue.ts";
import type { FactEvent } from "../events/event.ts";
import type { SESSION_FACTS } from "../events/facts/session-facts.ts";
import { withoutAsker } from "./askers.ts";
import type { BroughtMember } from "./brought-members.ts";
import { countPerson } from "./people.ts";
import { type SessionIdentity, type SessionState, stopRun } from "./state.ts";
import { STATE_BUDGET } from "./state-budget.ts";
import { forgetUsage } from "./usage.ts";
import { lostSettings, nextSetting, withoutLost } from "./wanted-settings.ts";

/** Folds what happened to the session itself, and to the agent's session behind it. */
export function foldSessionFact(state: SessionState, event: FactEvent<keyof typeof SESSION_FACTS>): void {
  switch (event.kind) {
    case "session.anticipated":
    case "session.requested":
      // The process of a session that was anticipated is on its way.
      if (!state.identity) state.processRequest = event.seq;
      state.identity = identityIn(event.payload);
      countPerson(state, event.payload.owner);
      return;
    case "session.imported":
      return foldImport(state, event.payload);
    case "session.created":
    case "session.rebound":
      state.context = event.context;
      state.fork = null;
      return agentOpened(state);
    case "session.loaded":
      // With a method a process continued the session; otherwise a client attached, and opened it unless it looks on.
      if (event.payload.method !== undefined) agentOpened(state);
      else if (event.payload.role !== "observer") {
        state.closed = false;
        state.closedAt = null;
        for (const member of event.payload.brings ?? [])
          state.brought = { ...state.brought, [member]: event.payload.request };
      }
      return;
    case "session.members_refused":
      return forgetBrought(state, event.payload.members);
    case "session.update_released":
      return dropEarlyUpdate(state, event.payload.frame);
    case "session.detached":
      return foldDetached(state, event.payload);
    case "session.agent_session_id.updated":
      state.context = event.context;
      return;
    case "session.closed":
      state.closed = true;
      state.closedAt = event.at;
      return stopRun(state);
    case "session.titled":
      state.title = clip(event.payload.title, STATE_BUDGET.labelChars);
      countPerson(state, event.payload.subject ?? undefined);
      return;
    case "session.archived":
      state.archived = true;
      countPerson(state, event.payload.subject ?? undefined);
      return;
    case "session.unarchived":
      delete state.archived;
      countPerson(state, event.payload.subject ?? undefined);
      return;
    case "log.archived":
      return foldArchived(state, event.payload);
    case "agent.settings.restored":
      return settingsRestored(state);
    case "agent.login":
      return;
    default:
      assertNever(event);
  }
}

/** A process that has the settings of the process before needs to be asked for none. */
function agentOpened(state: SessionState): void {
  state.agent = "ready";
  const { report, wanted } = state;
  if (wanted && !nextSetting(report, wanted) && lostSettings(report, wanted).length === 0)
    delete state.wanted;
}

/** A value that the process has not accepted is no longer the current one. */
function settingsRestored(state: SessionState): void {
  const { report, wanted } = state;
  if (wanted) Object.assign(report, withoutLost(report, wanted));
  delete state.wanted;
}

function forgetBrought(state: SessionState, members: readonly BroughtMember[]): void {
  const kept = { ...state.brought };
  for (const member of members) delete kept[member];
  if (Object.keys(kept).length > 0) state.brought = kept;
  else delete state.brought;
}

function dropEarlyUpdate({ run }: SessionState, frame: number): void {
  if (run?.earlyUpdates) run.earlyUpdates = run.earlyUpdates.filter((seq) => seq !== frame);
}

function foldDetached(
  { awaitingAgent }: SessionState,
  { connection, requests }: Facts["session.detached"],
): void {
  for (const seq of requests) {
    const request = awaitingAgent[seq];
    if (request) awaitingAgent[seq] = withoutAsker(request, connection);
  }
}

/** A log from elsewhere may say anything: no more can be archived than there is. */
function foldArchived(state: SessionState, { chars, last }: Facts["log.archived"]): void {
  const archived = Math.min(chars, state.historyChars);
  state.historyChars -= archived;
  state.archivedChars += archived;
  state.archivedUpTo = Math.min(last, state.lastSeq);
}

/** The owner elsewhere is part of the history; nothing runs here yet. */
function foldImport(state: SessionState, payload: Facts["session.imported"]): void {
  const { whole } = payload.from;
  state.identity = identityIn(payload);
  countPerson(state, payload.owner);
  state.agent = "gone";
  // A copy has its whole log in its own storage, also the part that the original had moved to its archive.
  state.historyChars += state.archivedChars;
  state.archivedChars = 0;
  state.archivedUpTo = 0;
  state.policy = ASK_ALWAYS;
  if (whole !== undefined) forgetUsage(state.report);
  if (state.report.usage) delete state.report.usage.days;
  // The values of the login, and those of members that clients brought, stay where they were given.
  delete state.login;
  delete state.brought;
  // A fork that is moved before its agent has run is still a fork.
  if (whole !== undefined) state.fork = { whole };
  // A fork is made where the original's files are; the files of any other import are elsewhere.
  if (!state.fork || payload.anew) state.home = null;
  if (payload.anew) state.fork = { whole: false };
}

/** A log from elsewhere may name an owner and a place of any length. */
function identityIn({ tenant, owner, workspace, agent, cwd, request }: SessionIdentity): SessionIdentity {
  const { idChars, pathChars } = STATE_BUDGET;
  return {
    tenant: clip(tenant, idChars),
    owner: clip(owner, idChars),
    workspace: clip(workspace, idChars),
    agent: clip(agent, idChars),
    cwd: clip(cwd, pathChars),
    request,
  };
}
