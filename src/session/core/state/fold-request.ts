import { assertNever } from "../../../protocol/assert-never.ts";
import type { FactEvent } from "../events/event.ts";
import type { REQUEST_FACTS } from "../events/facts/request-facts.ts";
import { countPerson } from "./people.ts";
import type { SessionState } from "./state.ts";

/** Folds decisions about the agent's requests. Frames, not these facts, open and settle requests. */
export function foldRequestFact(state: SessionState, event: FactEvent<keyof typeof REQUEST_FACTS>): void {
  switch (event.kind) {
    case "permission.policy": {
      const { default: otherwise, byKind, timeoutMs, onTimeout } = event.payload;
      state.policy = { default: otherwise, byKind, timeoutMs, onTimeout };
      return;
    }
    case "permission.expired": {
      const request = state.awaitingClient[event.payload.request];
      if (request) request.expired = true;
      return;
    }
    case "permission.responded":
    case "question.responded":
      countPerson(state, event.payload.subject);
      return;
    case "permission.requested":
    case "permission.withdrawn":
    case "question.requested":
    case "question.withdrawn":
    case "client.fs.read":
    case "client.fs.write":
    case "client.terminal.create":
    case "client.terminal.output":
    case "client.terminal.wait_for_exit":
    case "client.terminal.kill":
    case "client.terminal.release":
      return;
    default:
      assertNever(event);
  }
}
