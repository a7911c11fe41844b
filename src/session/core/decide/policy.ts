import { type PermissionPolicy, verdictFor } from "../../../protocol/permission-policy.ts";
import type { SessionState } from "../state/state.ts";
import {
  type Decision,
  decide,
  type Outcome,
  openToClients,
  optionsIn,
  toolKindIn,
} from "./agent-requests.ts";
import type { Batch } from "./batch.ts";

/** The workspace's policy at work: it answers permissions in place of people, and the log says that it did. */

export type Ruling = { outcome: Outcome; decision: Decision };

/** What the policy says to a request with these parameters; undefined leaves it to people. */
export function rulingOn(state: SessionState, params: unknown): Ruling | undefined {
  const kind = toolKindIn(state, params);
  const verdict = verdictFor(state.policy, kind);
  return verdict === "ask" ? undefined : ruling(verdict, params, `${kind} is ${verdict} by policy`);
}

/**
 * Once, never for always: that is for a person to say. Without such an option a person is asked before
 * anything is allowed, and what is to be rejected is cancelled.
 */
function ruling(verdict: "allow" | "reject", params: unknown, why: string): Ruling | undefined {
  const option = optionsIn(params).find(({ kind }) => kind === `${verdict}_once`);
  const decision = { by: "policy", why };
  if (option) return { outcome: { outcome: "selected", optionId: option.optionId }, decision };
  if (verdict === "allow") return undefined;
  return { outcome: { outcome: "cancelled" }, decision: { ...decision, why: `${why}, without reject_once` } };
}

/** The workspace's policy as of now; it also holds for what is open. */
export function setPolicy(batch: Batch, policy: PermissionPolicy): void {
  if (JSON.stringify(policy) === JSON.stringify(batch.state.policy)) return;
  batch.fact("gateway", "permission.policy", policy);
  for (const seq of openToClients(batch.state)) {
    if (!batch.state.awaitingClient[seq]?.permission) continue;
    const found = rulingOn(batch.state, batch.frameAt(seq).frame.value.params);
    if (found) decide(batch, seq, found.outcome, found.decision);
  }
}

/** When the next open permission has waited long enough; null when none does. */
export function nextTimeout({ awaitingClient, policy: { timeoutMs } }: SessionState): number | null {
  const since = Object.values(awaitingClient).flatMap((one) =>
    one.permission && !one.expired ? one.since : [],
  );
  return timeoutMs === null || since.length === 0 ? null : Math.min(...since) + timeoutMs;
}

/** Answers what has waited too long. What the policy cannot answer goes on waiting. */
export function expirePermissions(batch: Batch): void {
  const { timeoutMs, onTimeout } = batch.state.policy;
  if (timeoutMs === null) return;
  for (const seq of openToClients(batch.state)) {
    const pending = batch.state.awaitingClient[seq];
    if (!pending?.permission || pending.expired || pending.since + timeoutMs > batch.at) continue;
    const { params } = batch.frameAt(seq).frame.value;
    const found = ruling(onTimeout, params, `nobody answered within ${timeoutMs} ms`);
    if (found) decide(batch, seq, found.outcome, found.decision);
    else batch.fact("gateway", "permission.expired", { request: seq, why: "there is no option allow_once" });
  }
}
