import type { DeadlineHandler } from "../durable/deadlines.ts";
import { expirePermissions, nextTimeout } from "./core/decide/policy.ts";
import { checkIdle } from "./core/decide/process-end.ts";
import type { SessionState } from "./core/state/state.ts";
import type { Recorder } from "./log/journal.ts";
import type { ProcessRequests } from "./outbox/process-requests.ts";
import type { SessionDeadline, SessionParts } from "./session-parts.ts";

/** Serves each deadline of the session except the expiry of the host's token, which concerns a socket. */
export function timerHandlers(
  state: SessionState,
  { archive, deadlines, index, webhooks }: SessionParts,
  processes: ProcessRequests,
  record: Recorder,
): Record<Exclude<SessionDeadline, "host-token">, DeadlineHandler> {
  return {
    place: () => processes.place(state),
    "agent-start": () => processes.startTimedOut(state),
    release: () => processes.release(state),
    idle: () => record(checkIdle),
    permission: () => {
      record(expirePermissions);
      const next = nextTimeout(state);
      if (next !== null) deadlines.set("permission", next);
    },
    archive: () => archive.archiveOldest(state, record),
    index: () => index.write(state),
    "webhook-messages": () => webhooks.handOver(state),
  };
}
