import type { DeadlineHandler } from "../durable/deadlines.ts";
import { expireRequests, nextTimeout } from "./core/decide/policy.ts";
import { checkIdle } from "./core/decide/process-end.ts";
import { giveUpRestoring } from "./core/decide/settings.ts";
import type { SessionState } from "./core/state/state.ts";
import type { Effects } from "./effects.ts";
import type { Recorder } from "./log/journal.ts";
import type { ProcessRequests } from "./outbox/process-requests.ts";
import type { Rest } from "./rest.ts";
import type { SessionDeadline, SessionParts } from "./session-parts.ts";

/** Serves each deadline of the session except the expiry of the host's token, which concerns a socket. */
export function timerHandlers(
  state: SessionState,
  { archive, clients, deadlines, index, registrar, webhooks }: SessionParts,
  processes: ProcessRequests,
  effects: Effects,
  rest: Rest,
  record: Recorder,
): Record<Exclude<SessionDeadline, "host-token">, DeadlineHandler> {
  return {
    registration: () => registrar.retry(),
    place: () => processes.place(state),
    delivery: () => clients.redeliver(),
    effects: () => effects.restore(state),
    login: () => effects.relayLogins(state),
    farewell: () => effects.endFarewell(state),
    "agent-start": () => processes.startTimedOut(state),
    settings: () => record(giveUpRestoring),
    release: async () => {
      rest.plan();
      await processes.release(state);
    },
    rest: () => rest.check(state),
    idle: () => record((batch) => checkIdle(batch, !clients.isEmpty)),
    permission: () => {
      record(expireRequests);
      const next = nextTimeout(state);
      if (next !== null) deadlines.set("permission", next);
    },
    archive: () => archive.archiveOldest(state, record),
    index: () => index.write(state),
    "webhook-messages": () => webhooks.handOver(state),
  };
}

/** Pause before the effects of events are restored after a failure; the deadline's own pauses follow. */
export const EFFECTS_RETRY_MS = 1000;
