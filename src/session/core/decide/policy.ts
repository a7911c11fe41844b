import { type PermissionPolicy, strictestVerdict } from "../../../protocol/permission-policy.ts";
import type { SessionState } from "../state/state.ts";
import { openToClients } from "./agent-requests.ts";
import type { Batch } from "./batch.ts";
import { answerPermission, type Decision, type Outcome, optionsIn, toolKindsIn } from "./permissions.ts";
import { dismissQuestion } from "./questions.ts";

/** The workspace's policy answers permission requests in place of people, and the log says so. */

export type Ruling = { outcome: Outcome; decision: Decision };

/** The policy's answer to a request with these parameters. Undefined leaves the request to people. */
export function rulingOn(state: SessionState, params: unknown): Ruling | undefined {
  const { kind, verdict } = strictestVerdict(state.policy, toolKindsIn(state, params));
  return verdict === "ask" ? undefined : ruling(verdict, params, `${kind} is ${verdict} by policy`);
}

/**
 * The policy answers once, never for always, which only a person may do. Without a matching option a request to be
 * allowed goes to a person, and a request to be rejected is cancelled.
 */
function ruling(verdict: "allow" | "reject", params: unknown, why: string): Ruling | undefined {
  const option = optionsIn(params).find(({ kind }) => kind === `${verdict}_once`);
  const decision = { by: "policy", why };
  if (option) return { outcome: { outcome: "selected", optionId: option.optionId }, decision };
  if (verdict === "allow") return undefined;
  return { outcome: { outcome: "cancelled" }, decision: { ...decision, why: `${why}, without reject_once` } };
}

/** Sets the workspace's policy, which also holds for requests that are open. */
export function setPolicy(batch: Batch, policy: PermissionPolicy): void {
  if (JSON.stringify(policy) === JSON.stringify(batch.state.policy)) return;
  batch.fact("gateway", "permission.policy", policy);
  for (const seq of openToClients(batch.state)) {
    if (!batch.state.awaitingClient[seq]?.permission) continue;
    const found = rulingOn(batch.state, batch.frameAt(seq).frame.value.params);
    if (found) answerPermission(batch, seq, found.outcome, found.decision);
  }
}

/** When the next open permission request or question times out; null when none does. */
export function nextTimeout({ awaitingClient, policy: { timeoutMs } }: SessionState): number | null {
  const since = Object.values(awaitingClient).flatMap((one) =>
    (one.permission && !one.expired) || one.question ? one.since : [],
  );
  return timeoutMs === null || since.length === 0 ? null : Math.min(...since) + timeoutMs;
}

/**
 * Answers the requests that have timed out. A permission request that the policy cannot answer goes on waiting. A question
 * is declined: nobody but a person can make up an answer.
 */
export function expireRequests(batch: Batch): void {
  const { timeoutMs, onTimeout } = batch.state.policy;
  if (timeoutMs === null) return;
  for (const seq of openToClients(batch.state)) {
    const pending = batch.state.awaitingClient[seq];
    if (!pending || pending.since + timeoutMs > batch.at) continue;
    const why = `nobody answered within ${timeoutMs} ms`;
    if (pending.question) dismissQuestion(batch, seq, pending, "decline", { by: "policy", why });
    if (!pending.permission || pending.expired) continue;
    const { params } = batch.frameAt(seq).frame.value;
    const found = ruling(onTimeout, params, why);
    if (found) answerPermission(batch, seq, found.outcome, found.decision);
    else batch.fact("gateway", "permission.expired", { request: seq, why: "there is no option allow_once" });
  }
}
